//! The actions of the terminal UI. Key and mouse events become actions, and actions change the
//! state.

use ratatui::layout::Position;

use super::input::LineEdit;

/// An action that the user requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UserAction {
    Quit,
    /// Closes an overlay or a screen, or leaves the query line.
    Back,
    /// Opens the selected session.
    Open,
    Move(MoveStep),
    /// Selects the next or previous hit in the selected session.
    Hit(Way),
    /// Moves the focus to the query line.
    FocusSearch,
    Edit(LineEdit),
    /// Inserts the next or previous completion of the word at the cursor.
    Complete(Way),
    /// Switches the selected filter on or off.
    Toggle,
    Column(Way),
    Show(OpenScreen),
    Menu(Menu),
    /// Picks the menu item with this letter.
    Pick(char),
    Resume,
    /// Reads new data.
    Refresh,
    Jump(LandmarkKind, Way),
    /// Starts to type a text to find in the session.
    Find,
    FindAgain(Way),
    Fold(Fold),
    /// Folds or unfolds one tool call.
    Turn,
    Click(Position),
    Wheel(Position, Way),
}

/// Forward or backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Next,
    Previous,
}

/// A movement in a list or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveStep {
    Line(Way),
    Page(Way),
    First,
    Last,
}

/// A screen or an overlay that can be opened from the list of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenScreen {
    Help,
    Filters,
    Stats,
}

/// A menu in the footer, each item with its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Menu {
    Copy,
    Open,
    Export,
}

/// A kind of message part that the reader can jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LandmarkKind {
    Prompt,
    Tool,
    Error,
}

/// A kind of message part that can be folded or unfolded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Tools,
    Thinking,
    Everything,
}
