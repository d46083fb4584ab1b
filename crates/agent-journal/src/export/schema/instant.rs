//! How the published schema describes instants.

/// An instant as the schema names it.
pub(super) struct Instant;

/// An instant that may be unknown, but is always spoken of.
pub(super) struct InstantOrNull;

macro_rules! describe {
    ($kind:ident, $types:tt) => {
        impl schemars::JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": $types, "format": "date-time" })
            }
        }
    };
}

describe!(Instant, "string");
describe!(InstantOrNull, ["string", "null"]);
