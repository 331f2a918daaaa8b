//! The guides' Rust, as doc tests.

macro_rules! guides {
    ($($name:ident = $path:literal,)*) => {$(
        #[doc = include_str!($path)]
        mod $name {}
    )*};
}

guides! {
    readme = "../../README.md",
    getting_started = "../../docs/getting-started.md",
    writing_a_server = "../../docs/writing-a-server.md",
    wires = "../../docs/wires.md",
    revisions = "../../docs/revisions.md",
    client = "../../docs/client.md",
    tasks = "../../docs/tasks.md",
    operating = "../../docs/operating.md",
    scripts = "../../docs/scripts.md",
    policy = "../../docs/policy.md",
    mounting = "../../docs/mounting.md",
}
