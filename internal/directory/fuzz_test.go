package directory

import (
	"testing"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/where"
)

// The label index and the labels of a node select the same.
func FuzzParseSelector(f *testing.F) {
	for _, text := range []string{"", "env=prod", "a!=b,c", "os in (linux, bsd)", "x notin (1)", "!old", "a==b", "(", "a in ()", ",,", "=,!"} {
		f.Add(text)
	}
	labels := map[string]string{"env": "prod", "os": "linux", "a": ""}
	byLabel, byKey := map[where.Pair]*roaring.Bitmap{}, map[unique.Handle[string]]*roaring.Bitmap{}
	for _, p := range where.MakePairs(labels) {
		byLabel[p], byKey[p.Key] = roaring.BitmapOf(5), roaring.BitmapOf(5)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		selected := s.Filter(roaring.BitmapOf(5), func(p where.Pair) *roaring.Bitmap { return byLabel[p] }, func(key unique.Handle[string]) *roaring.Bitmap { return byKey[key] })
		if got, want := selected.Contains(5), s.Matches(labels); got != want {
			t.Errorf("%q: index %v, labels %v", text, got, want)
		}
	})
}
