-- Writes the listing of one session.
INSERT OR REPLACE INTO sessions (
    key, agent, native, kind, shown, parent, parent_native, title, title_source, project,
    project_path, cwd, branch, agent_version, started_at, ended_at, active_s, prompts,
    answers, tool_calls, tool_results, tool_errors, messages, models, input, output,
    cache_read, cache_creation, reasoning, failed, refs, recording, generation,
    branches, directories, repository, summary
) VALUES (
    :key, :agent, :native, :kind, :shown, :parent, :parent_native, :title, :title_source,
    :project, :project_path, :cwd, :branch, :agent_version, :started_at, :ended_at, :active_s,
    :prompts, :answers, :tool_calls, :tool_results, :tool_errors, :messages, :models, :input,
    :output, :cache_read, :cache_creation, :reasoning, :failed, :refs, :recording, :generation,
    :branches, :directories, :repository, :summary
)
