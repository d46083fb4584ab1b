//! The shapes of records, with the fields that are used and the rest as written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::content::Content;
use super::usage::Info;
use crate::connectors::formats::json::{self, Lenient, Text, lenient, lossless};

lossless! {
    /// One line: an envelope, or, without a payload, a bare record.
    struct Line<'a> {
        "timestamp" timestamp: Option<Text<'a>>,
        "type" kind: Option<Text<'a>>,
        "payload" payload: Option<&'a RawValue>,
    }
}

lossless! {
    /// What the model was given or gave. In files without envelopes it is the line itself, and
    /// says more about itself.
    struct Item<'a> {
        "type" kind: Option<Text<'a>>,
        "record_type" record_type: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "session" session: Option<Owner<'a>>,
        "cwd" cwd: Option<Text<'a>>,
        "git" git: Option<Git<'a>>,
        "git_branch" branch: Option<Text<'a>>,
        "model" model: Option<Text<'a>>,
        "instructions" instructions: Option<&'a RawValue>,
        "id" id: Option<Text<'a>>,
        "role" role: Option<Text<'a>>,
        "content" content: Option<Content<'a>>,
        "text" text: Option<Content<'a>>,
        "message" message: Option<Content<'a>>,
        "phase" phase: Option<Text<'a>>,
        "summary" summary: Option<Content<'a>>,
        "encrypted_content" encrypted: Option<&'a RawValue>,
        "call_id" call_id: Option<Text<'a>>,
        "namespace" namespace: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "input" input: Option<&'a RawValue>,
        "action" action: Option<&'a RawValue>,
        "status" status: Option<Text<'a>>,
        "output" output: Option<&'a RawValue>,
        "tools" tools: Option<&'a RawValue>,
        "result" result: Option<Text<'a>>,
    }
}

lenient! {
    /// The session a bare record names.
    struct Owner<'a> {
        "id" id: Option<Text<'a>>,
    }
}

/// The files of a patch, each with what was done to it.
pub(super) type Changes<'a> = BTreeMap<String, &'a RawValue>;

lossless! {
    /// What the interface showed.
    struct Event<'a> {
        "type" kind: Option<Text<'a>>,
        "message" message: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "images" images: Option<Vec<Text<'a>>>,
        "local_images" local_images: Option<Vec<Text<'a>>>,
        "info" info: Option<Info>,
        "turn_id" turn_id: Option<Text<'a>>,
        "started_at" started_at: Option<f64>,
        "reason" reason: Option<Text<'a>>,
        "error" error: Option<&'a RawValue>,
        "item" item: Option<Shown<'a>>,
        "changes" changes: Option<Changes<'a>>,
        "results" results: Option<&'a RawValue>,
    }
}

lossless! {
    /// A thing the interface showed, in files that keep their history in pages.
    struct Shown<'a> {
        "type" kind: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "content" content: Option<Content<'a>>,
        "summary_text" summary: Option<Vec<Text<'a>>>,
        "raw_content" raw: Option<Vec<Text<'a>>>,
        "changes" changes: Option<Changes<'a>>,
    }
}

lossless! {
    /// What describes a thread.
    struct Meta<'a> {
        "id" id: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "cwd" cwd: Option<Text<'a>>,
        "cli_version" version: Option<Text<'a>>,
        "source" source: Option<&'a RawValue>,
        "thread_source" thread_source: Option<Text<'a>>,
        "forked_from_id" forked_from: Option<Text<'a>>,
        "history_base" history_base: Option<Lenient<HistoryBase<'a>>>,
        "parent_thread_id" parent: Option<Text<'a>>,
        "agent_nickname" nickname: Option<Text<'a>>,
        "git" git: Option<Git<'a>>,
        "instructions" instructions: Option<&'a RawValue>,
        "base_instructions" base_instructions: Option<&'a RawValue>,
        "dynamic_tools" dynamic_tools: Option<&'a RawValue>,
    }
}

/// The history that a fork goes on from without repeating it.
#[derive(Debug, Deserialize)]
pub(super) struct HistoryBase<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Option<Text<'a>>,
    /// Where it ends in the other thread's file.
    pub(super) end_byte_offset: Option<u64>,
    /// The number of the first record that is not part of it.
    pub(super) end_ordinal_exclusive: Option<u64>,
}

lossless! {
    /// The repository when the thread began.
    struct Git<'a> {
        "branch" branch: Option<Text<'a>>,
        "repository_url" url: Option<Text<'a>>,
    }
}

lenient! {
    /// What holds for the turn that begins.
    struct Context<'a> {
        "turn_id" turn_id: Option<Text<'a>>,
        "model" model: Option<Text<'a>>,
        "effort" effort: Option<Text<'a>>,
        "cwd" cwd: Option<Text<'a>>,
    }
}

lenient! {
    /// The history so far, shortened. What replaces it repeats what was told and is not read.
    struct Compacted<'a> {
        "message" message: Option<Text<'a>>,
    }
}

lenient! {
    /// Who started a thread, as far as it was another thread.
    struct Starter<'a> {
        "subagent" subagent: Option<&'a RawValue>,
    }
}

lenient! {
    struct Subagent<'a> {
        "thread_spawn" thread_spawn: Option<Spawn<'a>>,
    }
}

lenient! {
    struct Spawn<'a> {
        "parent_thread_id" parent_thread_id: Option<Text<'a>>,
    }
}

impl Meta<'_> {
    /// Whether an agent started the thread.
    pub(super) fn is_agent(&self) -> bool {
        self.starter().is_some()
            || self.thread_source.as_ref().is_some_and(|source| source.as_str() == "subagent")
    }

    /// The thread that started this one. A fork that a person made was started by nobody else.
    pub(super) fn parent(&self) -> Option<String> {
        let spawned = || {
            let subagent: Subagent<'_> = json::parse(self.starter()?.get())?;
            subagent.thread_spawn?.parent_thread_id.map(Text::into_owned)
        };
        let named = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.as_str().to_owned());
        let forked = || named(&self.forked_from).filter(|_| self.is_agent());
        named(&self.parent).or_else(spawned).or_else(forked)
    }

    /// The thread whose history this one begins with, where it has one.
    pub(super) fn origin(&self) -> Option<String> {
        let forked = self.forked_from.as_ref().map(|id| id.as_str().to_owned());
        forked.or_else(|| self.parent())
    }

    fn starter(&self) -> Option<&RawValue> {
        let source = self.source?.get();
        json::parse::<Starter<'_>>(source)?.subagent
    }
}

impl HistoryBase<'_> {
    /// The thread whose history it is.
    pub(super) fn thread(&self) -> Option<String> {
        self.thread_id.as_ref().map(|id| id.as_str().to_owned())
    }
}

impl Git<'_> {
    /// The repository as `owner/name`, whatever the address looks like.
    pub(super) fn repository(&self) -> Option<String> {
        let url = self.url.as_ref()?.as_str().trim_end_matches('/');
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
            let meta: Meta<'_> = serde_json::from_str(meta).unwrap();
            assert_eq!((meta.is_agent(), meta.parent().as_deref()), (agent, parent));
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
            let git = Git { url: Some(Text(url.into())), ..Git::default() };
            assert_eq!(git.repository().as_deref(), Some(expected), "{url}");
        };
        check("https://github.com/mara/web.git", "mara/web");
        check("git@github.com:mara/web.git", "mara/web");
        check("ssh://git@example.org:22/group/sub/web", "group/sub/web");
    }
}
