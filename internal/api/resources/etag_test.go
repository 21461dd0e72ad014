package resources

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
)

// incarnation is a request to a server whose journal has this incarnation.
func incarnation(n uint64) *request {
	return &request{Request: op.Request{View: view.New(view.Stores{Incarnation: n}, view.Live{})}}
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

// FuzzETags: a list of ETags is the list of its tags, and If-None-Match excludes every tag that
// If-Match takes. An ETag belongs to one incarnation of the data.
func FuzzETags(f *testing.F) {
	one, other := incarnation(7), incarnation(8)
	for _, text := range []string{one.etag(57), "W/" + one.etag(1), other.etag(57), "", "!", `"-"`} {
		f.Add(text)
	}
	if matches(one.etag(57), other.etag(57)) || !noneMatches(one.etag(57), other.etag(57)) {
		f.Errorf("ETag %s is one of another incarnation, too", one.etag(57))
	}
	f.Fuzz(func(t *testing.T, text string) {
		const tag = `"0000000000000007-57"`
		if strong := matches(text, tag); strong && noneMatches(text, tag) || strong != matches(strings.Join(tags(text), ","), tag) {
			t.Errorf("ETags %q, read as %q", text, tags(text))
		}
	})
}
