//! What was probably meant.

/// `did you mean …?`, if something is near, and otherwise what there is.
pub(crate) fn hint<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near =
        |name: &&&str| strsim::damerau_levenshtein(&typed.to_lowercase(), &name.to_lowercase());
    let nearest = known.iter().min_by_key(near);
    match nearest {
        Some(name) if near(&name) <= 1 + name.len() / 4 => format!("did you mean `{name}`?"),
        _ if known.is_empty() => "there is none".to_owned(),
        _ => format!("there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_slip_is_understood_and_otherwise_all_are_named() {
        let known = || ["greet", "weather"].into_iter();
        assert_eq!(hint("gret", known()), "did you mean `greet`?");
        assert_eq!(hint("Waether", known()), "did you mean `weather`?");
        assert_eq!(hint("x", known()), "there are greet, weather");
        assert_eq!(hint("x", [].into_iter()), "there is none");
    }
}
