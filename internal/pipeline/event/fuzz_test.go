package event

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A page token comes from outside: it is refused with a class, or means one place.
func FuzzPageToken(f *testing.F) {
	const log = 7
	for _, at := range []place{{severity: int(model.Disaster)}, {severity: 3, partition: 255, node: 1<<32 - 1, check: 1000}} {
		f.Add(token(at, log))
	}
	f.Add("")
	f.Add("AQ")
	f.Add(token(place{}, log+1))
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseToken(text, log)
		if err != nil {
			if class := model.ClassOf(err); class != model.Invalid && class != model.Conflict {
				t.Errorf("%q is refused as %s", text, class.Label())
			}
			return
		}
		if at.severity > int(model.Disaster) || at.partition >= model.Partitions {
			t.Errorf("%q means %+v", text, at)
		}
		if again, err := parseToken(token(at, log), log); err != nil || again != at {
			t.Errorf("%q means %+v, written again %+v, %v", text, at, again, err)
		}
	})
}
