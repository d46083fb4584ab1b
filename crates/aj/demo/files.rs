[
    (".claude/projects/-home-sam-web/5e1fb0a2-7c31-4f8e-9d20-3a6b1c0e4f11.jsonl", include_str!("home/.claude/projects/-home-sam-web/5e1fb0a2-7c31-4f8e-9d20-3a6b1c0e4f11.jsonl")),
    (".claude/projects/-home-sam-api/c0ffee12-90ab-4cde-8f01-23456789abcd.jsonl", include_str!("home/.claude/projects/-home-sam-api/c0ffee12-90ab-4cde-8f01-23456789abcd.jsonl")),
    (".claude/projects/-home-sam-lex/7a9d3b10-11aa-4b6c-a1f2-0d0e0f101112.jsonl", include_str!("home/.claude/projects/-home-sam-lex/7a9d3b10-11aa-4b6c-a1f2-0d0e0f101112.jsonl")),
    (".claude/projects/-home-sam-lex/7a9d3b10-11aa-4b6c-a1f2-0d0e0f101112/subagents/agent-a4f01c2.jsonl", include_str!("home/.claude/projects/-home-sam-lex/7a9d3b10-11aa-4b6c-a1f2-0d0e0f101112/subagents/agent-a4f01c2.jsonl")),
    (".claude/projects/-home-sam-ops/e57a1c33-2b2b-4444-9999-abcdefabcdef.jsonl", include_str!("home/.claude/projects/-home-sam-ops/e57a1c33-2b2b-4444-9999-abcdefabcdef.jsonl")),
]
