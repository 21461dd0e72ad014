package api

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What one life of the data gave, another one refuses.
func TestPlacesAreOfOneLife(t *testing.T) {
	before, after := &server{Options: Options{Incarnation: 7}}, &server{Options: Options{Incarnation: 8}}
	token, tag := before.next("default/disk"), before.etag(57)
	if place, err := before.after(token); err != nil || place != "default/disk" {
		t.Errorf("token: %q, %v", place, err)
	}
	if revision, err := before.revisionOf("W/" + tag); err != nil || revision != 57 {
		t.Errorf("ETag %s: %d, %v", tag, revision, err)
	}
	if _, err := after.after(token); model.ClassOf(err) != model.Conflict {
		t.Errorf("token of another life: %v", err)
	}
	if _, err := after.revisionOf(tag); model.ClassOf(err) != model.Stale {
		t.Errorf("ETag of another life: %v", err)
	}
	for _, text := range []string{"", "!", "Zm9v", "57"} {
		if _, err := before.after(text); model.ClassOf(err) != model.Invalid {
			t.Errorf("token %q: %v", text, err)
		}
		if _, err := before.revisionOf(text); model.ClassOf(err) != model.Invalid {
			t.Errorf("ETag %q: %v", text, err)
		}
	}
}
