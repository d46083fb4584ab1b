//! Everything that can be done. Keys and the mouse lead to actions, actions change the state.

use ratatui::layout::Position;

use super::input::Edit;

/// Something a person asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// One step out: an overlay, a screen, a query.
    Back,
    /// Into what is chosen.
    Open,
    Move(Step),
    /// The next or previous place in the chosen session that was found.
    Hit(Way),
    /// To the line where the query is typed.
    FocusSearch,
    Edit(Edit),
    /// The next completion of what is being typed.
    Complete(Way),
    /// Something in a list is switched on or off.
    Toggle,
    Column(Way),
    Show(Screen),
    Menu(Menu),
    /// The item of a menu with this letter.
    Pick(char),
    Resume,
    /// Look for news.
    Refresh,
    Jump(Landmark, Way),
    /// Begin to type what to find in a session.
    Find,
    FindAgain(Way),
    Fold(Fold),
    /// One tool is folded or unfolded.
    Turn,
    Click(Position),
    Wheel(Position, Way),
}

/// Forth or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Next,
    Previous,
}

/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Line(Way),
    Page(Way),
    First,
    Last,
}

/// What is shown over or instead of the list of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Help,
    Filters,
    Stats,
}

/// A choice of a few things, each with its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Menu {
    Copy,
    Open,
    Export,
}

/// What a reader may jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landmark {
    Prompt,
    Tool,
    Error,
}

/// What a reader may unfold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Tools,
    Thinking,
    Everything,
}
