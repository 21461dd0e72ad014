package view

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestPageTokensFailAfterRestore restores the server's data from a backup, and expects older page tokens to be
// refused. A restoration gives the data a new incarnation number.
func TestPageTokensFailAfterRestore(t *testing.T) {
	before, after := New(Stores{Incarnation: 7}, Live{}), New(Stores{Incarnation: 8}, Live{})
	token := before.NewPageToken("default/disk")
	if place, err := before.ParsePageToken(token); err != nil || place != "default/disk" {
		t.Errorf("token: %q, %v", place, err)
	}
	if _, err := after.ParsePageToken(token); model.ClassOf(err) != model.Conflict {
		t.Errorf("token of another incarnation: %v", err)
	}
	for _, text := range []string{"", "!", "Zm9v", "57"} {
		if _, err := before.ParsePageToken(text); model.ClassOf(err) != model.Invalid {
			t.Errorf("token %q: %v", text, err)
		}
	}
}

// FuzzPageTokens parses random page tokens and expects an error, or the same token when encoded again.
func FuzzPageTokens(f *testing.F) {
	v, other := New(Stores{Incarnation: 7}, Live{}), New(Stores{Incarnation: 8}, Live{})
	for _, text := range []string{v.NewPageToken("default/disk"), v.NewPageToken(""), other.NewPageToken("x"), "", "!", `"-"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		place, err := v.ParsePageToken(text)
		switch class := model.ClassOf(err); {
		case err != nil && class != model.Invalid && class != model.Conflict:
			t.Errorf("token %q is refused as %s", text, class.Label())
		case err == nil:
			if again, err := v.ParsePageToken(v.NewPageToken(place)); err != nil || again != place {
				t.Errorf("token %q means %q, encoded again %q, %v", text, place, again, err)
			}
		}
	})
}
