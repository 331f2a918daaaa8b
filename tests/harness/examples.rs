//! The command and the example programs, built.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The `zcp` command, built.
pub fn zcp() -> PathBuf {
    examples().parent().expect("target/*/examples").join("zcp")
}

/// Where the examples are, built once. `./test` builds them itself and says so in `ZCP_TESTS_BUILT`:
/// with a process for every test, asking cargo each time takes longer than most tests. Programs of
/// another build, such as a release, are tested with `ZCP_TESTS_PROGRAMS`: the folder that holds them.
pub fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(programs) = std::env::var_os("ZCP_TESTS_PROGRAMS") {
            return PathBuf::from(programs).join("examples");
        }
        let test = std::env::current_exe().expect("this test has a path");
        let profile = test.parent().and_then(Path::parent).expect("target/*/deps");
        if std::env::var_os("ZCP_TESTS_BUILT").is_some() {
            return profile.join("examples");
        }
        let mut build = std::process::Command::new(env!("CARGO"));
        build.args([
            "build",
            "-q",
            // The same features as the tests, so that nothing is built a second time.
            "--workspace",
            "--bin",
            "zcp",
            "--example",
            "everything",
            "--example",
            "printing",
        ]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo runs").success());
        profile.join("examples")
    })
}
