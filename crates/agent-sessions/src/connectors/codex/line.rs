//! The structure of the records: the fields that are used, and the others as written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::content::CodexContent;
use super::usage::Info;
use crate::connectors::formats::json::{self, BorrowedText, Lenient, lenient, lossless};

lossless! {
    /// One line: an envelope, or, without a payload, a bare record.
    struct CodexLine<'a> {
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "payload" payload: Option<&'a RawValue>,
    }
}

lossless! {
    /// An item of the model's input or output. In files without envelopes it is the line itself and
    /// has more fields.
    struct CodexItem<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "record_type" record_type: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "session" session: Option<Owner<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "git" git: Option<Git<'a>>,
        "git_branch" branch: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "instructions" instructions: Option<&'a RawValue>,
        "id" id: Option<BorrowedText<'a>>,
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<CodexContent<'a>>,
        "text" text: Option<CodexContent<'a>>,
        "message" message: Option<CodexContent<'a>>,
        "phase" phase: Option<BorrowedText<'a>>,
        "summary" summary: Option<CodexContent<'a>>,
        "encrypted_content" encrypted: Option<&'a RawValue>,
        "call_id" call_id: Option<BorrowedText<'a>>,
        "namespace" namespace: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "input" input: Option<&'a RawValue>,
        "action" action: Option<&'a RawValue>,
        "status" status: Option<BorrowedText<'a>>,
        "output" output: Option<&'a RawValue>,
        "tools" tools: Option<&'a RawValue>,
        "result" result: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The session that a bare record names.
    struct Owner<'a> {
        "id" id: Option<BorrowedText<'a>>,
    }
}

/// The files of a patch, each with its change.
pub(super) type PatchChanges<'a> = BTreeMap<String, &'a RawValue>;

lossless! {
    /// An event of the interface.
    struct InterfaceEvent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "message" message: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "images" images: Option<Vec<BorrowedText<'a>>>,
        "local_images" local_images: Option<Vec<BorrowedText<'a>>>,
        "info" info: Option<Info>,
        "turn_id" turn_id: Option<BorrowedText<'a>>,
        "started_at" started_at: Option<f64>,
        "reason" reason: Option<BorrowedText<'a>>,
        "error" error: Option<&'a RawValue>,
        "item" item: Option<ShownItem<'a>>,
        "changes" changes: Option<PatchChanges<'a>>,
        "results" results: Option<&'a RawValue>,
    }
}

lossless! {
    /// An item shown by the interface, in files with a paged history.
    struct ShownItem<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "content" content: Option<CodexContent<'a>>,
        "summary_text" summary: Option<Vec<BorrowedText<'a>>>,
        "raw_content" raw: Option<Vec<BorrowedText<'a>>>,
        "changes" changes: Option<PatchChanges<'a>>,
    }
}

lossless! {
    /// The description of a thread.
    struct ThreadMeta<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "cli_version" version: Option<BorrowedText<'a>>,
        "source" source: Option<&'a RawValue>,
        "thread_source" thread_source: Option<BorrowedText<'a>>,
        "forked_from_id" forked_from: Option<BorrowedText<'a>>,
        "history_base" history_base: Option<Lenient<HistoryBase<'a>>>,
        "parent_thread_id" parent: Option<BorrowedText<'a>>,
        "agent_nickname" nickname: Option<BorrowedText<'a>>,
        "git" git: Option<Git<'a>>,
        "instructions" instructions: Option<&'a RawValue>,
        "base_instructions" base_instructions: Option<&'a RawValue>,
        "dynamic_tools" dynamic_tools: Option<&'a RawValue>,
    }
}

/// The history that a fork continues without repeating it.
#[derive(Debug, Deserialize)]
pub(super) struct HistoryBase<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Option<BorrowedText<'a>>,
    /// End of the history in the other thread's file, in bytes.
    pub(super) end_byte_offset: Option<u64>,
    /// Ordinal of the first record that is not part of the history.
    pub(super) end_ordinal_exclusive: Option<u64>,
}

lossless! {
    /// The repository at the start of the thread.
    struct Git<'a> {
        "branch" branch: Option<BorrowedText<'a>>,
        "repository_url" url: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Settings of the turn that begins.
    struct TurnContext<'a> {
        "turn_id" turn_id: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "effort" effort: Option<BorrowedText<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A summary that replaces the history so far. The replacement repeats earlier records and is
    /// not read.
    struct Compacted<'a> {
        "message" message: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The origin of a thread, as far as it is another thread.
    struct Starter<'a> {
        "subagent" subagent: Option<&'a RawValue>,
    }
}

lenient! {
    struct SubagentSource<'a> {
        "thread_spawn" thread_spawn: Option<Spawn<'a>>,
    }
}

lenient! {
    struct Spawn<'a> {
        "parent_thread_id" parent_thread_id: Option<BorrowedText<'a>>,
    }
}

impl ThreadMeta<'_> {
    /// Returns whether an agent started the thread.
    pub(super) fn is_agent(&self) -> bool {
        self.thread_starter().is_some()
            || self
                .thread_source
                .as_ref()
                .is_some_and(|source| source.as_borrowed_str() == "subagent")
    }

    /// Returns the thread that started this one. A fork made by a person has no such thread.
    pub(super) fn parent_thread(&self) -> Option<String> {
        let spawned = || {
            let subagent: SubagentSource<'_> = json::parse_json(self.thread_starter()?.get())?;
            subagent.thread_spawn?.parent_thread_id.map(BorrowedText::into_owned)
        };
        let named = |text: &Option<BorrowedText<'_>>| {
            text.as_ref().map(|text| text.as_borrowed_str().to_owned())
        };
        let forked = || named(&self.forked_from).filter(|_| self.is_agent());
        named(&self.parent).or_else(spawned).or_else(forked)
    }

    /// Returns the thread whose history this one begins with, if any.
    pub(super) fn history_origin(&self) -> Option<String> {
        let forked = self.forked_from.as_ref().map(|id| id.as_borrowed_str().to_owned());
        forked.or_else(|| self.parent_thread())
    }

    fn thread_starter(&self) -> Option<&RawValue> {
        let source = self.source?.get();
        json::parse_json::<Starter<'_>>(source)?.subagent
    }
}

impl HistoryBase<'_> {
    /// Returns the id of the thread that the history belongs to.
    pub(super) fn base_thread_id(&self) -> Option<String> {
        self.thread_id.as_ref().map(|id| id.as_borrowed_str().to_owned())
    }
}

impl Git<'_> {
    /// Returns the repository as `owner/name`, for any form of URL.
    pub(super) fn repository_name(&self) -> Option<String> {
        let url = self.url.as_ref()?.as_borrowed_str().trim_end_matches('/');
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path),
            None => url.split_once(':').map_or(url, |(_, path)| path),
        };
        let path = path.trim_matches('/').trim_end_matches(".git");
        (!path.is_empty()).then(|| path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_names_its_parent_in_several_ways() {
        let check = |meta: &str, agent: bool, parent: Option<&str>| {
            let meta: ThreadMeta<'_> = serde_json::from_str(meta).unwrap();
            assert_eq!((meta.is_agent(), meta.parent_thread().as_deref()), (agent, parent));
        };
        check(r#"{"id":"a","source":"cli"}"#, false, None);
        check(r#"{"id":"a","forked_from_id":"p"}"#, false, None);
        check(r#"{"source":{"subagent":"review"},"forked_from_id":"p"}"#, true, Some("p"));
        check(
            r#"{"source":{"subagent":{"thread_spawn":{"parent_thread_id":"p","depth":1}}}}"#,
            true,
            Some("p"),
        );
        check(r#"{"thread_source":"subagent","parent_thread_id":"q"}"#, true, Some("q"));
        check(r#"{"source":{"custom":"x"}}"#, false, None);
    }

    #[test]
    fn repositories_are_named_by_owner_and_name() {
        let check = |url: &str, expected: &str| {
            let git = Git { url: Some(BorrowedText(url.into())), ..Git::default() };
            assert_eq!(git.repository_name().as_deref(), Some(expected), "{url}");
        };
        check("https://github.com/mara/web.git", "mara/web");
        check("git@github.com:mara/web.git", "mara/web");
        check("ssh://git@example.org:22/group/sub/web", "group/sub/web");
    }
}
