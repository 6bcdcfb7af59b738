//! A field as somebody wrote it: there, not there, or of the wrong type.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A field that decodes whatever stands there, so that one wrong type does not hide the other problems of
/// an object. `null` counts as not given. A wrong value itself is not kept: it could be a secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Given<T> {
    /// Not there, or `null`.
    #[default]
    Missing,
    /// There, and of the right type.
    Is(T),
    /// There, but of another type: which one.
    Wrong(&'static str),
}

impl<T> Given<T> {
    /// Whether nothing stands there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// The value, if it is there and of the right type.
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Missing | Self::Wrong(_) => None,
        }
    }
}

impl<T> From<T> for Given<T> {
    fn from(value: T) -> Self {
        Self::Is(value)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let found = kind(&value);
        Ok(match value {
            Value::Null => Self::Missing,
            value => T::deserialize(value).map_or(Self::Wrong(found), Self::Is),
        })
    }
}

impl<T: Serialize> Serialize for Given<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().serialize(serializer)
    }
}

/// In the schema it is simply a `T`.
impl<T: JsonSchema> JsonSchema for Given<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// What a value is, in words for a message.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_there_decodes_without_failing() {
        let check = |text: &str, expect: Given<String>| {
            assert_eq!(serde_json::from_str::<Given<String>>(text).unwrap(), expect, "{text}");
        };
        check("null", Given::Missing);
        check("\"\"", Given::Is(String::new()));
        check("\"a\"", Given::Is("a".into()));
        check("7", Given::Wrong("a number"));
        check("true", Given::Wrong("true or false"));
        check("[]", Given::Wrong("a list"));
        check("{}", Given::Wrong("an object"));
    }
}
