package event

import (
	"bytes"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
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

// Whatever the bytes of the section, Decode refuses them or reads states that it writes the same.
func FuzzDecodeSection(f *testing.F) {
	golden := goldenView(f)
	f.Add(reducer{golden}.Encode(golden.Partition(1), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		decode := func(data []byte) (*View, error) {
			v, d := newView(options{}), shard.NewDecoder(data)
			for _, id := range []model.NodeID{1, 7} {
				v.Partition(1).AddNode(id, 1)
			}
			reducer{v}.Decode(v.Partition(1), d)
			return v, d.Err()
		}
		v, err := decode(data)
		if err != nil {
			return
		}
		first := reducer{v}.Encode(v.Partition(1), nil)
		again, err := decode(first)
		if err != nil || !bytes.Equal(reducer{again}.Encode(again.Partition(1), nil), first) {
			t.Fatalf("the section of what was decoded is another: %v", err)
		}
	})
}
