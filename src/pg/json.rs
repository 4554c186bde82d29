//! `jsonb` that is only passed through: carried as its text, so that no number loses a digit and no depth is a limit.

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::{Datum, FromDatum, IntoDatum, UnboxDatum};
use pgrx::pg_sys;

/// The text of a jsonb value, as PostgreSQL prints it.
#[derive(Clone, Debug)]
pub struct Json(String);

impl Json {
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Whether it is an object without pairs.
    pub fn is_empty(&self) -> bool {
        self.0 == "{}"
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of a key of an object, as text that is the same for equal values.
    pub fn field(&self, key: &str) -> Option<String> {
        // SAFETY: jsonb_object_field takes a jsonb and a text, and answers a jsonb or NULL.
        let value = unsafe {
            let arguments = [self.clone().into_datum(), key.into_datum()];
            pgrx::direct_function_call::<Json>(pg_sys::jsonb_object_field, &arguments)
        };
        value.map(|json| canonical(&json.0))
    }
}

/// jsonb keeps the trailing zeros of numbers, though 1 and 1.0 are equal; the rest of its text is canonical.
fn canonical(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut in_string, mut escaped, mut number) = (false, false, None);
    for c in json.chars().chain(std::iter::once(' ')) {
        if !in_string && (c.is_ascii_digit() || c == '.') {
            number.get_or_insert(text.len());
        } else if let Some(start) = number.take()
            && text[start..].contains('.')
        {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        if in_string {
            (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
        } else {
            in_string = c == '"';
        }
        text.push(c);
    }
    text.pop();
    text
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Json(value.to_string())
    }
}

impl FromDatum for Json {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the datum is a jsonb, which is what jsonb_out takes; it answers a palloc'ed C string.
        unsafe {
            let text = pgrx::direct_function_call::<&std::ffi::CStr>(pg_sys::jsonb_out, &[Some(datum)])?;
            let json = Json(text.to_string_lossy().into_owned());
            pg_sys::pfree(text.as_ptr().cast_mut().cast());
            Some(json)
        }
    }
}

// SAFETY: the value is copied out, so it does not borrow from the datum.
unsafe impl UnboxDatum for Json {
    type As<'src> = Json;

    unsafe fn unbox<'src>(datum: Datum<'src>) -> Json
    where
        Self: 'src,
    {
        // SAFETY: the caller guarantees a jsonb datum that is not null.
        unsafe { Json::from_datum(datum.sans_lifetime(), false) }.expect("jsonb value is not null")
    }
}

impl IntoDatum for Json {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let text = std::ffi::CString::new(self.0).ok()?;
        // SAFETY: jsonb_in takes a C string, which lives through the call.
        unsafe { pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(text.as_ptr().into())]) }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::JSONBOID
    }
}

// SAFETY: the argument's declared type is jsonb.
unsafe impl<'fcx> ArgAbi<'fcx> for Json {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the macro calls this only for arguments that are not null.
        unsafe { arg.unbox_arg_using_from_datum() }.expect("jsonb argument is not null")
    }
}

// SAFETY: the function's declared result is jsonb.
unsafe impl BoxRet for Json {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum was just made in the current memory context.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

pgrx::impl_sql_translatable!(Json, "jsonb");
