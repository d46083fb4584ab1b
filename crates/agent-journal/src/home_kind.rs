//! The ways in which this system reaches a home directory.

/// The way this system reaches a home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HomeKind {
    /// A home of this system.
    #[default]
    Local,
    /// A Linux home, accessed from Windows.
    Wsl,
    /// A Windows home, accessed from WSL.
    Windows,
    /// A copy from another machine.
    Remote,
    /// No home: the sessions come from an imported export.
    Import,
}

impl HomeKind {
    /// All kinds that a user can configure.
    pub const ALL: [Self; 4] = [Self::Local, Self::Wsl, Self::Windows, Self::Remote];

    /// Returns the name of the kind, as used in all output.
    pub fn home_kind_name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Wsl => "wsl",
            Self::Windows => "windows",
            Self::Remote => "remote",
            Self::Import => "import",
        }
    }
}
