//! The stylesheet and the scripts, as they were written, inside the binary.

use std::sync::LazyLock;

use agent_journal::Journal;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

struct Asset {
    name: &'static str,
    kind: &'static str,
    content: String,
    tag: String,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let style =
        [include_str!("../../web/style.css"), include_str!("../../web/charts.css"), &agents()]
            .concat();
    vec![
        asset("style.css", STYLE, style),
        asset("theme.js", SCRIPT, include_str!("../../web/theme.js").to_owned()),
        asset("app.js", SCRIPT, include_str!("../../web/app.js").to_owned()),
        asset("icon.svg", "image/svg+xml", include_str!("../../web/icon.svg").to_owned()),
    ]
});

fn asset(name: &'static str, kind: &'static str, content: String) -> Asset {
    // FNV-1a: it need not withstand anybody, it need only change.
    let hash = content.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Asset { name, kind, content, tag: format!("\"{hash:016x}\"") }
}

/// A colour for each agent: `.agent-ID` sets `--agent`.
fn agents() -> String {
    let rule = |agent: &'static agent_journal::connectors::Agent| {
        let (red, green, blue) = agent.color;
        format!(".agent-{} {{ --agent: rgb({red} {green} {blue}); }}\n", agent.id)
    };
    Journal::agents().map(rule).collect()
}

/// Serves one of them.
pub(super) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let about = [(ETAG, asset.tag.as_str()), (CACHE_CONTROL, "no-cache")];
    if headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == asset.tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(CONTENT_TYPE, asset.kind)], asset.content.as_str()).into_response()
}
