package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// ApplyOptions are what an operator says with an apply.
type ApplyOptions struct {
	DryRun      bool
	Yes         bool // go beyond MaxAffected
	MaxAffected int  // assignments that may change; zero: a fifth of the nodes, at least 50
	// Expect: revisions that resources must have (If-Match), 0: none may be there;
	// absent: whatever. A difference is a model.Stale.
	Expect map[Key]int64
	// Owner signs all that is applied; empty: by hand. See owner.go.
	Owner      string
	TakeOver   bool // also what belongs to another owner
	Prune      bool // delete what belongs to the owner and is not applied; see prune.go
	AllowEmpty bool // prune though nothing is applied
	// Namespaces bound a prune; nil: it looks into all.
	Namespaces []string
	// Redact is for a dry run of somebody who may only look: what Kinds.Redact hides is
	// neither shown nor compared.
	Redact bool
}

// prunes reports whether a prune may take a resource away.
func (o *ApplyOptions) prunes(key Key) bool {
	return o.Namespaces == nil || slices.Contains(o.Namespaces, key.Namespace)
}

// Op is what became of a resource.
type Op string

const (
	OpCreated   Op = "created"
	OpUpdated   Op = "updated"
	OpUnchanged Op = "unchanged"
	OpDeleted   Op = "deleted"
	OpRenamed   Op = "renamed"
	OpRetired   Op = "retired"
)

// Outcome is what became of one resource.
type Outcome struct {
	Key      Key      `json:"key"`
	Op       Op       `json:"op"`
	Was      string   `json:"was,omitempty"` // the name before, of what was renamed
	Landing  Landing  `json:"landing"`
	Revision int64    `json:"revision"`
	Diff     string   `json:"diff,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Pruned   bool     `json:"pruned,omitempty"` // its owner does not declare it any more
}

// ApplyResult is the outcome of one apply.
type ApplyResult struct {
	Revision int64     `json:"revision"`
	Affected int       `json:"affected"` // assignments that change
	Outcomes []Outcome `json:"outcomes"`
	Refused  error     `json:"-"` // of a dry run: why it would not be done
}

// Apply makes all resources so, in one transaction, or says why not.
func (s *Service) Apply(ctx context.Context, by Actor, resources []model.Resource, o ApplyOptions) (ApplyResult, error) {
	by.Owner = o.Owner
	a := application{service: s, by: by, opts: o, going: map[Key]bool{}}
	if err := a.prepare(ctx, resources); err != nil {
		return ApplyResult{}, err
	}
	return a.finish(ctx)
}

// Delete removes resources, in one transaction, with the same guard as Apply; a namespace
// only together with all that is in it.
func (s *Service) Delete(ctx context.Context, by Actor, keys []Key, o ApplyOptions) (ApplyResult, error) {
	a := application{service: s, by: by, opts: o}
	going := map[Key]bool{}
	for _, key := range keys {
		going[key] = true
	}
	if n, namer, err := s.namer(ctx, going, nil); err != nil {
		return ApplyResult{}, err
	} else if namer != nil {
		return ApplyResult{}, model.Errorf(model.Conflict, "%s refers to %s in %s", withOwner(namer), keyOfReference(n), n.Field).
			WithHint("remove the reference first, or delete both in one command")
	}
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(x, y Key) int { return rank(x) - rank(y) })
	for _, key := range keys {
		row, err := s.opts.Store.Get(ctx, key)
		if err != nil {
			return ApplyResult{}, err
		}
		if err := s.mayDelete(ctx, key, going); err != nil {
			return ApplyResult{}, err
		}
		if err := a.deleteEverybody(ctx, key, going); err != nil {
			return ApplyResult{}, err
		}
		if expect, ok := o.Expect[key]; ok && expect != row.Revision {
			return ApplyResult{}, stale(Write{Key: key, Expect: expect}.Check(true, row.Revision))
		}
		if key.Kind == "Node" {
			a.bury(row, Tombstone{Why: ReasonDeleted, Reason: by.Why})
		}
		a.read(row)
		a.add(Write{Key: key, Expect: row.Revision}, Outcome{Key: key, Op: OpDeleted, Diff: difference(row.Body, nil), Warnings: disowned(row)})
	}
	return a.finish(ctx)
}

// rank puts namespaces behind what is in them.
func rank(key Key) int {
	if key.Kind == "Namespace" {
		return 1
	}
	return 0
}

// mayDelete refuses to take away a namespace that is built in, or that would leave
// something behind.
func (s *Service) mayDelete(ctx context.Context, key Key, going map[Key]bool) error {
	if key.Kind != "Namespace" {
		return nil
	}
	if key.Name == model.DefaultNamespaceName || key.Name == model.SharedNamespaceName {
		return model.Errorf(model.Invalid, "namespace %s is built in and stays", key.Name)
	}
	for _, kind := range s.opts.Kinds.Kinds() {
		if !kind.Namespaced {
			continue
		}
		rows, err := s.opts.Store.List(ctx, ListQuery{Kind: kind.Name, Namespace: key.Name, Limit: len(going) + 2})
		if err != nil {
			return err
		}
		if left := slices.IndexFunc(rows, func(row Row) bool { return !going[row.Key] && !goesAlong(row, key.Name) }); left >= 0 {
			return model.Errorf(model.Conflict, "namespace %s is not empty: it holds %s", key.Name, rows[left].Key).
				WithHint("take these away: muster delete %s -n %s --all --yes; it and all it holds: muster delete namespace %s --cascade --yes",
					kind.Plural, key.Name, key.Name)
		}
	}
	return nil
}

// application is one apply on its way.
type application struct {
	service  *Service
	by       Actor
	opts     ApplyOptions
	writes   []Write
	outcomes []Outcome
	written  []int          // index into outcomes of each write
	graves   []Write        // tombstones that are written with it
	claims   map[string]Key // nodes that come to have a uid which a file says

	set       map[Key]*model.Resource // what is applied
	nodes     map[Key]Row             // rows of nodes that were read for it
	going     map[Key]bool            // what is pruned
	lookup    *lookup
	implied   map[Key]bool // what is made with something else, and is nobody's
	foreign   []foreign
	unhandled error
}

func (a *application) add(w Write, o Outcome) {
	a.writes = append(a.writes, w)
	a.written = append(a.written, len(a.outcomes))
	a.outcomes = append(a.outcomes, o)
}

// prepare turns resources into the writes that are needed; all problems at once.
func (a *application) prepare(ctx context.Context, resources []model.Resource) error {
	resources, err := a.withEverybody(ctx, resources)
	if err != nil {
		return err
	}
	var problems []error
	set := make(map[Key]*model.Resource, len(resources))
	a.set, a.lookup = set, a.service.newLookup(set, a.going)
	slices.SortStableFunc(resources, func(x, y model.Resource) int { return rank(KeyOf(&y)) - rank(KeyOf(&x)) }) // rooms before what is in them
	for i := range resources {
		r := &resources[i]
		key := KeyOf(r)
		if !a.implied[key] {
			if err := a.sign(r); err != nil {
				problems = append(problems, err)
			}
		}
		r.Metadata.Namespace = key.Namespace
		if set[key] != nil {
			problems = append(problems, model.Errorf(model.Invalid, "%s is declared twice in this apply", key))
		}
		set[key] = r
		if err := a.service.opts.Validate(r); err != nil {
			problems = append(problems, err)
		}
		if len(problems) >= maxProblems {
			break
		}
	}
	if len(problems) > 0 {
		return invalid(problems)
	}
	strays, err := a.strays(ctx, set)
	if err != nil {
		return err
	}
	if err := a.lookup.readAll(ctx); err != nil {
		return err
	}
	for i := range resources {
		if err := a.resource(ctx, &resources[i]); err != nil {
			if model.ClassOf(err) != model.Invalid {
				return err
			}
			if problems = append(problems, err); len(problems) >= maxProblems {
				return invalid(problems)
			}
		}
	}
	problems = append(problems, a.service.cycles(ctx, a.lookup)...)
	reached, err := a.service.reach(ctx, a.lookup)
	if err != nil {
		return err
	}
	problems = append(problems, reached...)
	held, err := a.service.held(ctx, a.lookup)
	if err != nil {
		return err
	}
	problems = append(problems, held...)
	if err := invalid(problems); err != nil {
		return err
	}
	return a.prune(ctx, strays)
}

// maxProblems is how many problems of one apply are said: who has made so many knows enough.
const maxProblems = 50

// maxBody is how long a stored resource is at most, in bytes.
const maxBody = 512 << 10

func invalid(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	if len(problems) == 1 && model.ClassOf(problems[0]) == model.Invalid {
		return problems[0]
	}
	return model.Errorf(model.Invalid, "%w", errors.Join(problems...))
}

func (a *application) resource(ctx context.Context, r *model.Resource) error {
	s, key := a.service, KeyOf(r)
	warnings, err := s.references(ctx, r, a.lookup)
	if err != nil {
		return err
	}
	if err := s.trust(ctx, r, a.lookup); err != nil {
		return err
	}
	found, err := a.lookup.row(ctx, key)
	if err != nil {
		return err
	}
	var row Row
	exists := found != nil
	if exists {
		row = *found
	}
	write := Write{Key: key, Expect: row.Revision}
	if expect, ok := a.opts.Expect[key]; ok {
		write.Expect = expect
		if err := write.Check(exists, row.Revision); err != nil {
			return stale(err)
		}
	}
	owners := a.own(r, row, exists)
	if node, ok := r.Spec.(*model.NodeSpec); ok {
		if exists {
			a.read(row)
		}
		was, err := s.keepMeasured(node, row, exists)
		if err != nil {
			return err
		}
		if node.UID != was.UID {
			if err := a.claim(key, node.UID); err != nil {
				return err
			}
		}
	}
	if silence, ok := r.Spec.(*model.SilenceSpec); ok {
		silence.Creator = a.by.User
		if exists {
			old, err := a.service.decode(row)
			if err != nil {
				return err
			}
			silence.Creator = old.Spec.(*model.SilenceSpec).Creator
		}
	}
	if write.Body, err = encode(r); err != nil {
		return err
	}
	if len(write.Body) > maxBody {
		return model.Errorf(model.Invalid, "%s has %d bytes, at most %d", key, len(write.Body), maxBody).WithHint("keep what is long in files on the nodes")
	}
	outcome := Outcome{Key: key, Op: OpCreated, Revision: row.Revision, Warnings: warnings}
	switch {
	case exists && a.same(key, row.Body, write.Body):
		outcome.Op = OpUnchanged
		a.outcomes = append(a.outcomes, outcome)
		return nil
	case exists:
		outcome.Op = OpUpdated
	}
	outcome.Diff, outcome.Warnings = a.difference(key, row.Body, write.Body), append(owners, warnings...)
	a.add(write, outcome)
	return nil
}

// same compares what is on record with what would be, as far as the caller may see it.
func (a *application) same(key Key, before, after []byte) bool {
	if a.opts.Redact {
		before, after = a.service.redacted(key, before), a.service.redacted(key, after)
	}
	return sameJSON(before, after)
}

func (a *application) difference(key Key, before, after []byte) string {
	if a.opts.Redact {
		before, after = a.service.redacted(key, before), a.service.redacted(key, after)
	}
	return difference(before, after)
}

// keepMeasured: what an agent said of itself is not the operator's to change, and what it
// was given stays where a file says nothing of it. It returns what the node was.
func (s *Service) keepMeasured(node *model.NodeSpec, row Row, exists bool) (before *model.NodeSpec, err error) {
	before = &model.NodeSpec{}
	if exists {
		old, err := s.decode(row)
		if err != nil {
			return nil, err
		}
		before = old.Spec.(*model.NodeSpec)
	}
	switch {
	case node.Proxy && before.UID != "":
		return nil, model.Errorf(model.Invalid, "%s has a machine: it cannot be a proxy node", row.Name).
			WithHint("declare the proxy node by another name, or delete this node first")
	case before.Proxy && !node.Proxy:
		return nil, model.Errorf(model.Invalid, "%s is a proxy node: no machine can become it", row.Name).
			WithHint("delete it first, and its events with it: muster delete node %s", row.Name)
	}
	if before.UID != "" || node.UID == "" {
		node.UID = before.UID
	}
	node.Key, node.Facts, node.AgentLabels, node.AgentGroups, node.AgentReceivers = before.Key, before.Facts, before.AgentLabels, before.AgentGroups, before.AgentReceivers
	if node.JoinGrant == nil {
		node.JoinGrant = before.JoinGrant // what it joined with is in no file
	} else if node.JoinGrant.Empty() {
		node.JoinGrant = nil
	}
	return before, nil
}

// sameJSON compares what two bodies mean.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	ax, _ := json.Marshal(x)
	by, _ := json.Marshal(y)
	return bytes.Equal(ax, by)
}

// finish asks where it lands, guards, and commits.
func (a *application) finish(ctx context.Context) (ApplyResult, error) {
	out := ApplyResult{Outcomes: a.outcomes}
	if impact := a.service.opts.Impact; impact != nil {
		// Unchanged resources too: people want to see where they are in force.
		asked := slices.Clone(a.writes)
		at := slices.Clone(a.written)
		for i := range a.outcomes {
			if o := &a.outcomes[i]; o.Op == OpUnchanged {
				row, err := a.unchanged(ctx, o.Key)
				if err != nil {
					return ApplyResult{}, err
				}
				asked, at = append(asked, Write{Key: o.Key, Body: row.Body, Expect: row.Revision}), append(at, i)
			}
		}
		landings, affected, err := impact(ctx, asked)
		if err != nil {
			return ApplyResult{}, err
		}
		for i, landing := range landings {
			out.Outcomes[at[i]].Landing = landing
			out.Outcomes[at[i]].Warnings = append(out.Outcomes[at[i]].Warnings, landing.Warnings...)
		}
		out.Affected = affected
	}
	refused := a.refused(out.Affected)
	if a.opts.DryRun {
		out.Refused = refused
		return out, nil
	}
	if refused != nil || len(a.writes) == 0 {
		return out, refused
	}
	done, err := a.commit(ctx)
	if model.ClassOf(err) == model.Conflict && a.opts.Owner != "" {
		err = meanwhile(err)
	}
	if len(a.opts.Expect) > 0 {
		err = stale(err)
	}
	if err != nil {
		return ApplyResult{}, err
	}
	out.Revision = done.Revision
	for i := range a.writes {
		out.Outcomes[a.written[i]].Revision = done.Revision
	}
	return out, nil
}

// unchanged returns the row of a resource that the apply leaves as it is.
func (a *application) unchanged(ctx context.Context, key Key) (Row, error) {
	if a.lookup == nil {
		return a.service.opts.Store.Get(ctx, key)
	}
	row, err := a.lookup.row(ctx, key)
	if err == nil && row == nil {
		err = model.Errorf(model.NotFound, "%s does not exist", key)
	}
	if err != nil {
		return Row{}, err
	}
	return *row, nil
}

func (a *application) guard(affected int) error {
	most := a.opts.MaxAffected
	if most <= 0 {
		most = max(50, a.service.nodes.len()/5)
	}
	if a.opts.Yes || affected <= most {
		return nil
	}
	look := "muster plan"
	inFiles := func(o Outcome) bool { return o.Op != OpDeleted && o.Op != OpRetired }
	renamed := func(o Outcome) bool { return o.Op == OpRenamed }
	if !slices.ContainsFunc(a.outcomes, inFiles) || slices.ContainsFunc(a.outcomes, renamed) {
		look = "--dry-run"
	}
	return model.Errorf(model.Guarded, "this changes what %d nodes do; without --yes at most %d may change%s", affected, most, a.pruned()).
		WithHint("look at it with %s, then repeat with --yes, or with --max-affected %d", look, affected)
}
