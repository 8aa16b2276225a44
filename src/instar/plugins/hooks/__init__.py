"""The hooks plugin: rules from files decide, before and after things happen, whether they may (seed 003, issue 8).

It is a plugin like anybody's, switched on when settings or a file name rules. The pure half: `sources` reads rules,
`match` says which ones an event meets, `payload` is what they are told, `command` and `verdict` read what comes back,
`outcome` combines it. `evaluate` is what runs them, `runner` puts events to them, `server` stands on the hook points.
"""
