//! The description of instants in the published schema.

/// An instant in the schema.
pub(super) struct SchemaInstant;

/// An instant that may be null, but is always present.
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

describe!(SchemaInstant, "string");
describe!(InstantOrNull, ["string", "null"]);
