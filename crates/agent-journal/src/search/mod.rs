//! What is meant by a query, and what fits it?

mod filter;
mod gather;
mod query;
mod run;
mod snippet;

pub use filter::{Filter, Scope};
pub use query::{Clause, Edge, FIELDS, Pattern, Query, ROLES, agent, date, nearest, role};
pub use run::{Answer, Found, Hit, Tier};
pub use snippet::Snippet;

pub(crate) use run::Search;
