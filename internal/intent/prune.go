package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// stray is something that the owner declared once and does not any more.
type stray struct {
	row  Row
	stay string // why it is not taken away all the same; empty: it goes
}

// strays finds them, and notes in a.going what goes. What others own, or nobody, is not
// looked at; machines that joined and what is built in stay, and so does a namespace that
// something is left in.
func (a *application) strays(ctx context.Context, set map[Key]*model.Resource) (list []stray, err error) {
	if !a.opts.Prune {
		return nil, nil
	}
	if a.opts.Owner == "" {
		return nil, model.Errorf(model.Invalid, "what to prune is not said: whose?").WithHint("--prune goes with --owner NAME")
	}
	if len(set) == 0 && !a.opts.AllowEmpty {
		return nil, model.Errorf(model.Invalid, "nothing is declared: with --prune all that %s owns would be deleted", a.opts.Owner).
			WithHint("is it the right folder? if all of it is to go: --allow-empty")
	}
	name, err := json.Marshal(a.opts.Owner)
	if err != nil {
		return nil, err
	}
	kinds := a.service.opts.Kinds.Kinds()
	slices.Reverse(kinds) // what builds on others first, namespaces last
	for _, kind := range kinds {
		q := ListQuery{Kind: kind.Name, Limit: rowsAtOnce}
		for {
			rows, err := a.service.opts.Store.List(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				if a.opts.prunes(row.Key) && set[row.Key] == nil && bytes.Contains(row.Body, name) && ownerOf(row) == a.opts.Owner {
					list = append(list, stray{row: row})
				}
			}
			if len(rows) < q.Limit {
				break
			}
			q.After = rows[len(rows)-1].Key
		}
	}
	for i := range list {
		row := list[i].row
		if isEverybody(row.Key) {
			continue // as its namespace, which comes last
		}
		if list[i].stay, err = a.stays(ctx, row, set); err != nil {
			return nil, err
		}
		if list[i].stay == "" {
			a.going[row.Key] = true
		}
	}
	return a.straysEverybody(ctx, list)
}

// stays says why something is not pruned; empty: it is.
func (a *application) stays(ctx context.Context, row Row, set map[Key]*model.Resource) (why string, err error) {
	switch row.Kind {
	case "Node":
		r, err := a.service.decode(row)
		if err != nil {
			return "", err
		}
		if r.Spec.(*model.NodeSpec).UID != "" {
			return "its machine has joined; when it is to go: muster delete " + row.Key.String(), nil
		}
	case "Namespace":
		for key := range set {
			if key.Namespace == row.Name {
				return "it holds " + key.String(), nil
			}
		}
		err := a.service.mayDelete(ctx, row.Key, a.going)
		if said := model.ClassOf(err); said == model.Conflict || said == model.Invalid {
			return err.(*model.Error).Message, nil
		} else if err != nil {
			return "", err
		}
		group, there, err := a.service.everybodyOf(ctx, row.Name)
		if owner := ownerOf(group); there && owner != "" && owner != a.opts.Owner {
			return "it holds " + group.Key.String() + " (of " + owner + ")", nil
		}
		return "", err
	}
	return "", nil
}

// prune adds the deletions. A handler that somebody still names is not taken away: nobody
// would hear of those problems any more.
func (a *application) prune(ctx context.Context, list []stray) error {
	for _, s := range list {
		o := Outcome{Key: s.row.Key, Revision: s.row.Revision, Pruned: true}
		if s.stay != "" {
			o.Op, o.Warnings = OpUnchanged, []string{"it is not declared any more and stays: " + s.stay}
			if isEverybody(s.row.Key) {
				if err := a.disown(s.row, o); err != nil {
					return err
				}
				continue
			}
			a.outcomes = append(a.outcomes, o)
			continue
		}
		o.Op, o.Diff = OpDeleted, a.difference(s.row.Key, s.row.Body, nil)
		a.read(s.row)
		a.add(Write{Key: s.row.Key, Expect: s.row.Revision}, o)
	}
	n, by, err := a.service.namer(ctx, a.going, a.set)
	if err == nil && by != nil {
		a.unhandled = model.Errorf(model.Conflict, "%s is not declared any more, but %s refers to it in %s", keyOfReference(n), withOwner(by), n.Field).
			WithHint("keep its file until nothing refers to it; nothing was changed")
	}
	return err
}

func withOwner(r *model.Resource) string {
	if r.Metadata.Owner != "" {
		return KeyOf(r).String() + " (of " + r.Metadata.Owner + ")"
	}
	return KeyOf(r).String()
}

// namer finds a resource that requires one of those that an apply deletes; nil: there is none. It
// ignores resources that the apply deletes, too, and those that it writes (set), which references checks.
func (s *Service) namer(ctx context.Context, going map[Key]bool, set map[Key]*model.Resource) (ref kind.Reference, by *model.Resource, err error) {
	if len(going) == 0 {
		return ref, nil, nil
	}
	names := map[string]bool{}
	for key := range going {
		names[key.Name], names[key.Namespace+"/"+key.Name] = true, true
	}
	for _, k := range s.opts.Kinds.Referring() {
		rows, err := s.opts.Store.List(ctx, ListQuery{Kind: k.Name})
		if err != nil {
			return ref, nil, err
		}
		for _, row := range rows {
			if going[row.Key] || set[row.Key] != nil || !mentions(row.Body, names) {
				continue // one of a hundred thousand nodes, most of which refer to nothing
			}
			r, err := s.decode(row)
			if err != nil {
				return ref, nil, err
			}
			for _, ref := range s.opts.Kinds.References(r) {
				if ref.Required && going[keyOfReference(ref)] {
					return ref, r, nil
				}
			}
		}
	}
	return ref, nil, nil
}

// mentions reports whether a JSON text holds one of the names as a string. Names need no escapes.
func mentions(body []byte, names map[string]bool) bool {
	for {
		start := bytes.IndexByte(body, '"')
		if start < 0 {
			return false
		}
		body = body[start+1:]
		end := 0
		for end < len(body) && body[end] != '"' {
			if body[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(body) {
			return false
		}
		if names[string(body[:end])] {
			return true
		}
		body = body[end+1:]
	}
}

// pruned names what would be deleted, for the message of the guard.
func (a *application) pruned() string {
	var names []string
	for _, o := range a.outcomes {
		if o.Pruned && o.Op == OpDeleted {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; it would delete %s that %s declares no more: %s", model.CountNoun(len(names), "resource"), a.opts.Owner, model.ListFirst(names, 10))
}
