//! The stylesheet and the scripts, embedded unchanged in the binary.

use std::sync::LazyLock;

use agent_journal::Journal;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

struct StaticAsset {
    name: &'static str,
    kind: &'static str,
    content: String,
    tag: String,
}

static ASSETS: LazyLock<Vec<StaticAsset>> = LazyLock::new(|| {
    let style = [
        include_str!("../../web/style.css"),
        include_str!("../../web/charts.css"),
        &agent_color_rules(),
    ]
    .concat();
    vec![
        new_asset("style.css", STYLE, style),
        new_asset("theme.js", SCRIPT, include_str!("../../web/theme.js").to_owned()),
        new_asset("app.js", SCRIPT, include_str!("../../web/app.js").to_owned()),
        new_asset("icon.svg", "image/svg+xml", include_str!("../../web/icon.svg").to_owned()),
    ]
});

fn new_asset(name: &'static str, kind: &'static str, content: String) -> StaticAsset {
    // FNV-1a: the tag has to change with the content, not to withstand an attacker.
    let hash = content.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    StaticAsset { name, kind, content, tag: format!("\"{hash:016x}\"") }
}

/// Builds a CSS rule for the colour of each agent: `.agent-ID` sets `--agent`.
fn agent_color_rules() -> String {
    let rule = |agent: &'static agent_journal::connectors::Agent| {
        let (red, green, blue) = agent.color;
        format!(".agent-{} {{ --agent: rgb({red} {green} {blue}); }}\n", agent.id)
    };
    Journal::supported_agents().map(rule).collect()
}

/// Serves one of the assets.
pub(super) async fn serve_asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let about = [(ETAG, asset.tag.as_str()), (CACHE_CONTROL, "no-cache")];
    if headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == asset.tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(CONTENT_TYPE, asset.kind)], asset.content.as_str()).into_response()
}
