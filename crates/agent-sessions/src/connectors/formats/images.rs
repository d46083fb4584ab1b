//! Images that records name by URL.

use crate::model::Image;

/// Returns the image of a data URL, or the location of one.
pub fn image_from_url(url: &str) -> Image {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => Image::from_base64(Some(media_type.to_owned()), data),
        None => Image { location: Some(url.to_owned()), ..Image::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_url_is_the_image_and_any_other_its_location() {
        let image = image_from_url("data:image/png;base64,AAAA");
        assert_eq!((image.media_type.as_deref(), image.bytes), (Some("image/png"), 3));
        let image = image_from_url("/tmp/a.png");
        assert_eq!((image.location.as_deref(), image.bytes), (Some("/tmp/a.png"), 0));
    }
}
