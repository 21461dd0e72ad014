package api

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// FuzzPlaces: a page token from outside is refused with a class, or is one of ours and
// written again the same; a list of ETags is what its tags are, and what If-Match takes
// If-None-Match excludes.
func FuzzPlaces(f *testing.F) {
	s, other := &server{Options: Options{Incarnation: 7}}, &server{Options: Options{Incarnation: 8}}
	for _, text := range []string{s.next("default/disk"), s.next(""), other.next("x"), s.etag(57), "W/" + s.etag(1), other.etag(57), "", "!", `"-"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		place, err := s.after(text)
		switch class := model.ClassOf(err); {
		case err != nil && class != model.Invalid && class != model.Conflict:
			t.Errorf("token %q is refused as %s", text, class.Label())
		case err == nil:
			if again, err := s.after(s.next(place)); err != nil || again != place {
				t.Errorf("token %q means %q, written again %q, %v", text, place, again, err)
			}
		}
		const tag = `"0000000000000007-57"`
		if strong := matches(text, tag); strong && noneMatches(text, tag) || strong != matches(strings.Join(tags(text), ","), tag) {
			t.Errorf("ETags %q, read as %q", text, tags(text))
		}
	})
}

// FuzzWhere: a condition over events is refused with a reason, or is answered at once
// for any event. (Conditions over nodes are fuzzed in internal/where.)
func FuzzWhere(f *testing.F) {
	for _, expr := range []string{
		`event.status == CRITICAL && event.severity >= 4`, `event.output.matches("(a+)+$")`, `now - event.changed > duration("1h")`,
		`node.labels.env == "prod" && "web" in node.groups`, `event.problem ? event.check : 7`, `[1, 2][event.occurrences] == 1`, `event`,
	} {
		f.Add(expr, "DISK CRITICAL: / is full")
	}
	f.Fuzz(func(t *testing.T, expr, output string) {
		w, err := conditions.Compile(expr)
		if err != nil {
			if model.ClassOf(err) != model.Invalid {
				t.Errorf("%q is refused as %v", expr, err)
			}
			return
		}
		s := event.State{Node: 7, Check: 9, Status: model.Critical, Severity: model.High, Results: 5, Occurrences: 5, Output: output}
		began := time.Now()
		if _, err := newSubject(w, oneNode{}, time.Unix(1_800_000_000, 0)).match(&s); err != nil {
			t.Errorf("%q: %v", expr, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q takes %v", expr, took)
		}
	})
}
