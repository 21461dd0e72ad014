package resources

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// FuzzApplyBody decodes random bodies of an apply and expects success or a client error (4xx).
func FuzzApplyBody(f *testing.F) {
	v := view.New(view.Stores{}, view.Live{})
	s := &resourceRequest{Request: op.Request{View: v, Routes: op.NewRoutes(op.Options{View: v, Queues: &queue.Registry{}})}}
	for _, text := range []string{
		`{"resources":[{"kind":"Check"},{}],"dryRun":true,"message":"m"}`, `{"resources":[]}`, `{"resources":[1,`, `{"resources":{}}`,
		`{"dryRun":true,"dryRun":true}`, `[]`, `{} {}`, `{"expect":[{"kind":"Check","name":"x","revision":-1}],"resources":[]}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := s.readApplyBody(data, func(i int, raw json.RawMessage) error {
			if !json.Valid(raw) {
				t.Errorf("resource %d is no JSON: %q", i, raw)
			}
			return nil
		})
		var status huma.StatusError
		switch {
		case err == nil:
		case errors.As(err, &status):
			if status.GetStatus()/100 != 4 {
				t.Errorf("%q: status %d", data, status.GetStatus())
			}
		case model.ClassOf(err) != model.Invalid && model.ClassOf(err) != model.TooLarge:
			t.Errorf("%q: %v", data, err)
		}
	})
}

// newRequestOfIncarnation returns a request to a server whose data have the given version number (incarnation). The
// number changes when data are restored or created anew.
func newRequestOfIncarnation(n uint64) *resourceRequest {
	return &resourceRequest{Request: op.Request{View: view.New(view.Stores{Incarnation: n}, view.Live{})}}
}

// TestIfMatchAndIfNoneMatchCompareETags compares ETags in If-Match and If-None-Match, and expects the results of RFC
// 9110. The comparison is strong for If-Match and weak for If-None-Match; both accept lists.
func TestIfMatchAndIfNoneMatchCompareETags(t *testing.T) {
	const tag = `"0000000000000007-57"`
	for _, c := range []struct {
		header       string
		strong, weak bool
	}{
		{tag, true, true}, {"W/" + tag, false, true}, {"*", true, true}, {`"stale"`, false, false}, {"stale", false, false},
		{`"stale", ` + tag, true, true}, {tag + `,"x"`, true, true}, {` , W/"x" ,W/` + tag, false, true},
		{`"a,` + tag, false, false}, {`"a, b", ` + tag, true, true}, {`0000000000000007-57`, false, false}, {`""`, false, false}, {`"`, false, false},
	} {
		if got := ifMatchHolds(c.header, tag); got != c.strong {
			t.Errorf("If-Match: %s: %v", c.header, got)
		}
		if got := !ifNoneMatchHolds(c.header, tag); got != c.weak {
			t.Errorf("If-None-Match: %s: %v", c.header, got)
		}
	}
	if !ifNoneMatchHolds("", tag) {
		t.Error("no header excludes something")
	}
}

// FuzzETags parses random ETag lists and expects that If-Match and If-None-Match never both accept a tag. An ETag
// belongs to one incarnation of the data.
func FuzzETags(f *testing.F) {
	one, other := newRequestOfIncarnation(7), newRequestOfIncarnation(8)
	for _, text := range []string{one.resourceETag(57), "W/" + one.resourceETag(1), other.resourceETag(57), "", "!", `"-"`} {
		f.Add(text)
	}
	if ifMatchHolds(one.resourceETag(57), other.resourceETag(57)) || !ifNoneMatchHolds(one.resourceETag(57), other.resourceETag(57)) {
		f.Errorf("ETag %s is one of another incarnation, too", one.resourceETag(57))
	}
	f.Fuzz(func(t *testing.T, text string) {
		const tag = `"0000000000000007-57"`
		if strong := ifMatchHolds(text, tag); strong && ifNoneMatchHolds(text, tag) || strong != ifMatchHolds(strings.Join(splitETags(text), ","), tag) {
			t.Errorf("ETags %q, read as %q", text, splitETags(text))
		}
	})
}
