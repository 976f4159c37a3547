use super::*;

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn commands_and_options() {
    let cli = parsed("headwater run shop.yaml --log-format json --log-level debug").unwrap();
    assert_eq!(cli.log.log_format, LogFormat::Json);
    assert_eq!(cli.log.log_level, "debug");
    assert!(!cli.log.progress());
    assert!(matches!(cli.command, Command::Run(args) if args.job.as_os_str() == "shop.yaml"));
    // Log options may stand in front of the command too.
    let cli = parsed("headwater --log-format text check shop.yaml").unwrap();
    assert_eq!(cli.log.log_format, LogFormat::Text);
    let cli = parsed("headwater verify shop.yaml --timeout 90s --json").unwrap();
    let Command::Verify(args) = cli.command else {
        panic!("not verify");
    };
    assert_eq!(args.timeout, Duration::from_secs(90));
    assert!(args.json);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [
        "headwater",
        "headwater run",
        "headwater frobnicate",
        "headwater run a.yaml b.yaml",
        "headwater run a.yaml --log-format xml",
        "headwater run a.yaml --log-level =",
        "headwater verify a.yaml --timeout soon",
        "headwater completion tcsh",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn the_help_names_every_exit_code() {
    let help = Cli::command().render_long_help().to_string();
    let codes = [
        ExitCode::Ok,
        ExitCode::Failed,
        ExitCode::Usage,
        ExitCode::Definite,
        ExitCode::Transient,
        ExitCode::Held,
    ];
    for code in codes {
        assert!(
            help.contains(&format!("\n  {}  ", code.number())),
            "{code:?}"
        );
    }
}

#[test]
fn a_wrong_job_file_ends_with_the_code_of_usage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.yaml");
    std::fs::write(&path, "source: {}\n").unwrap();
    for command in ["run", "check", "verify"] {
        let line = format!("headwater {command} {}", path.display());
        assert_eq!(dispatch(parsed(&line).unwrap()), ExitCode::Usage);
    }
}
