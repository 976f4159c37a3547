//! No secret in any message, whatever is wrong with the file.

use super::*;

const SECRET: &str = "hunter2";

/// Everything that is said of a file.
fn said(text: &str) -> String {
    let environment = Fixed {
        variables: [("PW", SECRET)].into(),
        files: [("/pw", SECRET)].into(),
    };
    match parse("shop.yaml", text, &environment) {
        Ok(job) => format!("{job:?}"),
        Err(error) => format!("{error}\n{error:?}"),
    }
}

#[test]
fn a_job_does_not_show_its_password() {
    for value in [SECRET, "${PW}", "${file:/pw}", "${NO:-hunter2}"] {
        let text = minimal("", "", "").replace("password: p", &format!("password: {value}"));
        let said = said(&text);
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn no_broken_password_is_shown() {
    let values = [
        "hunter2: x",
        "\"hunter2",
        "'hunter2",
        "[hunter2",
        "[hunter2]",
        "{hunter2: hunter2}",
        "*hunter2",
        "&hunter2 hunter2",
        "!hunter2 x",
        "@hunter2",
        "`hunter2",
        "%hunter2",
        "hunter2 ${NOPE}",
        "hunter2${",
        "${hunter2",
        "|\n    hunter2\n   hunter2",
        "\"a\n    hunter2: b\n  c",
        "\"a\n  hunter2\n\" x",
        "hunter2\n  password: hunter2",
        "hunter2\n    port: hunter2",
        "\thunter2",
        "'hunter2' hunter2",
    ];
    for value in values {
        let text = minimal("", "", "").replace("password: p", &format!("password: {value}"));
        let said = said(&text);
        // A file that names the secret as a variable shows that name; it is no value.
        let allowed = value == "${hunter2";
        assert!(allowed || !said.contains(SECRET), "{value}\n{said}");
    }
}

#[test]
fn secrets_in_flow_style_and_in_properties() {
    let texts = [
        format!("source: {{type: mysql, password: {SECRET}, prot: 1, hostname: h}}\n{SINK}"),
        format!("source: {{type: mysql, \"password\": {SECRET}, tables: [}}\n{SINK}"),
        minimal(&format!("  debezium.database.password: {SECRET}\n"), "", ""),
        minimal(
            &format!("  jdbc.properties.trustCertificateKeyStorePassword: {SECRET}\n"),
            "",
            "",
        ),
        minimal(
            "",
            &format!("  catalog.properties.oss.secret-key: {SECRET}\n"),
            "",
        ),
        minimal(
            "",
            &format!("  catalog.properties.s3.access.keys: {SECRET}\n"),
            "",
        ),
        minimal("", "", &format!("my.token: {SECRET}\n")),
        minimal(
            "",
            "",
            &format!("pipeline:\n  model:\n    - openai.apikey: {SECRET}\n      x: [\n"),
        ),
    ];
    for text in texts {
        let said = said(&text);
        assert!(!said.contains(SECRET), "{text}\n{said}");
        assert!(said.contains("shop.yaml"), "not refused: {text}");
    }
}

#[test]
fn the_line_of_a_secret_is_shown_without_it() {
    let text = minimal("", "", "").replace("password: p", "password: [hunter2]");
    assert_eq!(
        read(&text).unwrap_err().to_string(),
        "`source.password` must be a single value\n  --> shop.yaml:5:13\n   |\n \
         5 |   password: ***\n   |             ^"
    );
}

/// Every slip of one character, anywhere but in the secret itself.
#[test]
fn no_slip_of_a_finger_gives_the_secret_away() {
    let text = minimal("", "", "").replace("password: p", "password: hunter2");
    let secret = text.find(SECRET).unwrap();
    let key = text.find("password").unwrap();
    for at in 0..text.len() {
        if (secret..secret + SECRET.len()).contains(&at) {
            continue;
        }
        let (before, after) = text.split_at(at);
        let mut slips = vec![format!("{before}{}", &after[1..])];
        for typed in "\"':{}[]\n #&*!|>%@`-,?x\t".chars() {
            slips.push(format!("{before}{typed}{after}"));
            slips.push(format!("{before}{typed}{}", &after[1..]));
        }
        for slip in slips {
            let said = said(&slip);
            let line = said
                .lines()
                .find(|line| line.contains("| ") && line.contains("password"));
            assert!(
                !line.is_some_and(|line| line.contains("rd:h")),
                "{slip}\n---\n{said}"
            );
            // A key that a line break tears apart is no longer known for what it is.
            let torn =
                (key..key + "password".len()).contains(&at) && slip.contains("word: hunter2");
            assert!(torn || !said.contains(SECRET), "{slip}\n---\n{said}");
        }
    }
}
