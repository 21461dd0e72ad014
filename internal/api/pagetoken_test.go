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
	if _, err := after.after(token); model.ClassOf(err) != model.Conflict {
		t.Errorf("token of another life: %v", err)
	}
	if matches(tag, after.etag(57)) || !noneMatches(tag, after.etag(57)) {
		t.Errorf("ETag %s is one of another life, too", tag)
	}
	for _, text := range []string{"", "!", "Zm9v", "57"} {
		if _, err := before.after(text); model.ClassOf(err) != model.Invalid {
			t.Errorf("token %q: %v", text, err)
		}
	}
}

// If-Match compares strongly, If-None-Match weakly (RFC 9110, 8.8.3.2); both take lists.
func TestETagsAreCompared(t *testing.T) {
	const tag = `"0000000000000007-57"`
	for _, c := range []struct {
		header       string
		strong, weak bool
	}{
		{tag, true, true}, {"W/" + tag, false, true}, {"*", true, true}, {`"stale"`, false, false}, {"stale", false, false},
		{`"stale", ` + tag, true, true}, {tag + `,"x"`, true, true}, {` , W/"x" ,W/` + tag, false, true},
		{`"a,` + tag, false, false}, {`"a, b", ` + tag, true, true}, {`0000000000000007-57`, false, false}, {`""`, false, false}, {`"`, false, false},
	} {
		if got := matches(c.header, tag); got != c.strong {
			t.Errorf("If-Match: %s: %v", c.header, got)
		}
		if got := !noneMatches(c.header, tag); got != c.weak {
			t.Errorf("If-None-Match: %s: %v", c.header, got)
		}
	}
	if !noneMatches("", tag) {
		t.Error("no header excludes something")
	}
}
