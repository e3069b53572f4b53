//! One core's reference to the newest image.

use super::image::MetadataImage;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The image this core goes by. Clones on one core share it.
#[derive(Clone)]
pub struct MetadataView(Rc<RefCell<Arc<MetadataImage>>>);

impl MetadataView {
    pub fn new(image: Arc<MetadataImage>) -> MetadataView {
        MetadataView(Rc::new(RefCell::new(image)))
    }

    /// The image as of now: keep it for one request, so that the request sees one state.
    pub fn get(&self) -> Arc<MetadataImage> {
        self.0.borrow().clone()
    }

    /// Goes by `image` from now on.
    pub fn replace(&self, image: Arc<MetadataImage>) {
        let before = self.0.replace(image);
        let now = self.0.borrow().version;
        assert!(before.version <= now, "image {now} came after image {}", before.version);
    }
}
