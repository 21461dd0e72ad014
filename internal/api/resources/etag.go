package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// etag returns the strong ETag of a resource at a revision, in this incarnation of the data.
func (s *request) etag(revision int64) string {
	return fmt.Sprintf(`"%016x-%d"`, s.Incarnation, revision)
}

// tags splits an If-Match or If-None-Match header into its entity tags (RFC 9110), quotation marks
// included: W/"x", "y". Text that is no tag is kept, and equals no ETag.
func tags(header string) (list []string) {
	for header != "" {
		end := 0
		for quoted := false; end < len(header) && (quoted || header[end] != ','); end++ {
			quoted = quoted != (header[end] == '"')
		}
		if tag := strings.Trim(header[:end], " \t"); tag != "" {
			list = append(list, tag)
		}
		header = header[min(end+1, len(header)):]
	}
	return list
}

// matches compares as If-Match does: strongly, so a weak tag never matches.
func matches(header, tag string) bool {
	list := tags(header)
	return slices.Contains(list, "*") || slices.Contains(list, tag)
}

// noneMatches compares as If-None-Match does: weakly.
func noneMatches(header, tag string) bool {
	return !slices.ContainsFunc(tags(header), func(t string) bool { return t == "*" || strings.TrimPrefix(t, "W/") == tag })
}

// expectedRevision returns the revision that a change must find, by If-Match and If-None-Match; 0:
// no resource. conditional is false where the request has no condition.
func (s *request) expectedRevision(ctx context.Context, key intent.Key, in ChangeInput) (revision int64, conditional bool, err error) {
	if in.IfMatch == "" && in.IfNoneMatch == "" {
		return 0, false, nil
	}
	r, err := s.Intent.Get(ctx, key)
	switch {
	case model.ClassOf(err) == model.NotFound && in.IfMatch != "":
		return 0, false, model.Errorf(model.Stale, "%s is not there (any more), If-Match asks for %s", key, model.Shorten(in.IfMatch)).
			WithHint("leave If-Match away to make it, or find where it went: muster audit")
	case model.ClassOf(err) == model.NotFound:
		return 0, true, nil
	case err != nil:
		return 0, false, err
	}
	tag := s.etag(r.Status.Revision)
	switch {
	case in.IfMatch != "" && !matches(in.IfMatch, tag):
		return 0, false, model.Errorf(model.Stale, "%s was changed since: its ETag is %s, If-Match asks for %s", key, tag, model.Shorten(in.IfMatch)).
			WithHint("GET it again, look what it is now, and send the ETag of that answer")
	case in.IfMatch == "" && !noneMatches(in.IfNoneMatch, tag):
		return 0, false, model.Errorf(model.Stale, "%s is there already: its ETag is %s, If-None-Match excludes it", key, tag).
			WithHint("look at it with GET, then change it with If-Match")
	}
	return r.Status.Revision, true, nil
}
