package intent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// ApplyOptions has the options of an apply, deletion, renaming or retirement.
type ApplyOptions struct {
	DryRun      bool
	Yes         bool // confirms changes beyond MaxAffected
	MaxAffected int  // assignments that may change; zero: a fifth of the nodes, at least 50
	// Expect holds the revisions that resources must have (If-Match); 0: the resource must not exist. A difference is
	// a model.Stale.
	Expect map[Key]int64
	// Owner is written on all applied resources; empty: a change by hand. See resource_owner.go.
	Owner      string
	TakeOver   bool // takes resources of other owners, too
	Prune      bool // deletes resources of the owner that the apply leaves out; see resource_owner.go
	AllowEmpty bool // prunes even if the apply is empty
	// Namespaces bound a prune; nil: all namespaces.
	Namespaces []string
	// Redact makes a dry run for readers without access to secrets: it neither shows nor compares them.
	Redact bool
}

// prunes reports whether option --prune lets the apply delete undeclared resources in the namespace of a key.
func (o *ApplyOptions) prunes(key Key) bool {
	return o.Namespaces == nil || slices.Contains(o.Namespaces, key.Namespace)
}

// Op is the effect of an apply on one resource, such as created, updated or deleted.
type Op string

const (
	OpCreated   Op = "created"
	OpUpdated   Op = "updated"
	OpUnchanged Op = "unchanged"
	OpDeleted   Op = "deleted"
	OpRenamed   Op = "renamed"
	OpRetired   Op = "retired"
)

// Outcome is the effect of an apply on one resource, with details such as its warnings.
type Outcome struct {
	Key       Key       `json:"key"`
	Op        Op        `json:"op"`
	Was       string    `json:"was,omitempty"` // the name before a rename
	Placement Placement `json:"placement"`
	Revision  int64     `json:"revision"`
	Diff      string    `json:"diff,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Pruned    bool      `json:"pruned,omitempty"` // deleted because its owner no longer declares it
}

// ApplyResult has the Outcome of an apply for each resource, such as created or unchanged
type ApplyResult struct {
	Revision int64        `json:"revision"`
	Affected int          `json:"affected"` // assignments that change
	Outcomes []Outcome    `json:"outcomes"`
	Units    []UnitImpact `json:"units,omitempty"`   // of a dry run
	Timings  []StepTime   `json:"timings,omitempty"` // of a dry run
	Refused  error        `json:"-"`                 // of a dry run: the reason why an apply would be refused
}

// Apply declares resources in one transaction. If it cannot, it returns all reasons.
func (s *Resources) Apply(ctx context.Context, by Actor, resources []model.Resource, o ApplyOptions) (ApplyResult, error) {
	by.Owner = o.Owner
	a := pendingApply{repo: s.repository, by: by, opts: o, deleted: map[Key]bool{}}
	if err := a.prepare(ctx, resources); err != nil {
		return ApplyResult{}, err
	}
	return a.previewAndCommit(ctx)
}

// pendingApply is one apply in progress. It prepares its writes, previews their effect, requires a confirmation for
// many nodes, and commits.
type pendingApply struct {
	repo     *repository
	by       Actor
	opts     ApplyOptions
	writes   []Write
	outcomes []Outcome
	written  []int // for each write the index of its outcome

	applied    map[Key]*model.Resource
	deleted    map[Key]bool // resources that the prune deletes
	proposal   *proposal
	nodes      map[Key]Row       // rows of nodes as they were read
	claims     map[string]Key    // nodes whose uid the applied file declares, by uid
	tombstones []Write           // of deleted nodes
	requests   []Write           // end the request of this change
	hasReview  bool              // Impact.HasReview
	previewed  int64             // repository.previewed before the preview
	implied    map[Key]bool      // groups of new namespaces: they have no owner
	foreign    []foreignResource // resources of other owners
	dangling   error             // a reference to a pruned resource
}

// addWrite adds a database write to the apply, with its outcome for the user. The effect on the resource is, for
// example, created or updated.
func (a *pendingApply) addWrite(w Write, o Outcome) {
	a.writes = append(a.writes, w)
	a.written = append(a.written, len(a.outcomes))
	a.outcomes = append(a.outcomes, o)
}

// prepare validates the resources and converts the apply into database writes. It returns all problems at once.
func (a *pendingApply) prepare(ctx context.Context, resources []model.Resource) error {
	resources, err := a.addAllGroups(ctx, resources)
	if err != nil {
		return err
	}
	var problems []error
	set := make(map[Key]*model.Resource, len(resources))
	a.applied, a.proposal = set, newProposal(a.repo, set, a.deleted)
	slices.SortStableFunc(resources, func(x, y model.Resource) int { return deletionOrder(KeyOf(&y)) - deletionOrder(KeyOf(&x)) }) // namespaces before their content
	for i := range resources {
		r := &resources[i]
		key := KeyOf(r)
		if !a.implied[key] {
			if err := a.setOwner(r); err != nil {
				problems = append(problems, err)
			}
		}
		r.Metadata.Namespace = key.Namespace
		if set[key] != nil {
			problems = append(problems, model.Errorf(model.Invalid, "%s is declared twice in this apply", key))
		}
		set[key] = r
		if err := a.repo.opts.Validate(r); err != nil {
			problems = append(problems, err)
		}
		if len(problems) >= maxProblems {
			break
		}
	}
	if len(problems) > 0 {
		return joinErrors(problems)
	}
	strays, err := a.findUndeclared(ctx, set)
	if err != nil {
		return err
	}
	if err := a.proposal.readReferencedRows(ctx); err != nil {
		return err
	}
	for i := range resources {
		if err := a.prepareResource(ctx, &resources[i]); err != nil {
			if model.ClassOf(err) != model.Invalid {
				return err
			}
			if problems = append(problems, err); len(problems) >= maxProblems {
				return joinErrors(problems)
			}
		}
	}
	problems = append(problems, a.proposal.findCycles(ctx)...)
	reached, err := a.proposal.refuseSecretsForOpenGroups(ctx)
	if err != nil {
		return err
	}
	problems = append(problems, reached...)
	held, err := a.proposal.checkServerSecrets(ctx)
	if err != nil {
		return err
	}
	problems = append(problems, held...)
	if err := joinErrors(problems); err != nil {
		return err
	}
	return a.prune(ctx, strays)
}

// maxProblems bounds the problems that one apply reports.
const maxProblems = 50

// maxBody bounds the size of a stored resource, in bytes.
const maxBody = 512 << 10

// joinErrors combines several errors into one error of class Invalid. The error lists the first maxProblems. It is
// nil if there are no problems.
func joinErrors(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	if len(problems) == 1 && model.ClassOf(problems[0]) == model.Invalid {
		return problems[0]
	}
	return model.Errorf(model.Invalid, "%w", errors.Join(problems...))
}

// prepareResource validates one resource's references, owner and revision. It adds the database write unless the
// resource is unchanged.
func (a *pendingApply) prepareResource(ctx context.Context, r *model.Resource) error {
	s, key := a.repo, KeyOf(r)
	warnings, err := a.proposal.checkReferences(ctx, r)
	if err != nil {
		return err
	}
	if err := a.proposal.checkTrust(ctx, r); err != nil {
		return err
	}
	found, err := a.proposal.storedRow(ctx, key)
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
			return staleError(err)
		}
	}
	owners := a.checkOwner(r, row, exists)
	if node, ok := r.Spec.(*model.NodeSpec); ok {
		if exists {
			a.copyNodeRow(row)
		}
		was, err := s.keepReportedFields(node, row, exists)
		if err != nil {
			return err
		}
		if node.UID != was.UID {
			if err := a.recordDeclaredUID(key, node.UID); err != nil {
				return err
			}
		}
	}
	if silence, ok := r.Spec.(*model.SilenceSpec); ok {
		silence.Creator = a.by.User
		if exists {
			old, err := a.repo.decode(row)
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
		return model.Errorf(model.Invalid, "resource %s has %d bytes, the limit is %d", key, len(write.Body), maxBody).WithHint("shorten the resource: move long texts to files on the nodes")
	}
	outcome := Outcome{Key: key, Op: OpCreated, Revision: row.Revision, Warnings: warnings}
	switch {
	case exists && a.sameBody(key, row.Body, write.Body):
		outcome.Op = OpUnchanged
		a.outcomes = append(a.outcomes, outcome)
		return nil
	case exists:
		outcome.Op = OpUpdated
	}
	expired, err := a.checkWaiverExpiry(key, r.Spec)
	if err != nil {
		return err
	}
	outcome.Diff, outcome.Warnings = a.difference(key, row.Body, write.Body), slices.Concat(owners, warnings, expired)
	a.addWrite(write, outcome)
	return nil
}

// sameBody reports whether the JSON of a resource has the same content before and after the apply. It does not compare
// secrets if the caller may not see secrets.
func (a *pendingApply) sameBody(key Key, before, after []byte) bool {
	if a.opts.Redact {
		before, after = a.repo.redactBody(key, before), a.repo.redactBody(key, after)
	}
	return sameJSON(before, after)
}

// difference returns the unified diff of two JSON texts of a resource. Secrets are hidden if the caller may not see
// them.
func (a *pendingApply) difference(key Key, before, after []byte) string {
	if a.opts.Redact {
		before, after = a.repo.redactBody(key, before), a.repo.redactBody(key, after)
	}
	return difference(before, after)
}

// keepReportedFields copies fields that only machine and agent set, such as facts, into a declared node.
// Operators cannot change these parts, so they come from the stored node. Grants that the file leaves out stay.
// It returns the node before the apply.
func (r *repository) keepReportedFields(node *model.NodeSpec, row Row, exists bool) (before *model.NodeSpec, err error) {
	before = &model.NodeSpec{}
	if exists {
		old, err := r.decode(row)
		if err != nil {
			return nil, err
		}
		before = old.Spec.(*model.NodeSpec)
	}
	switch {
	case node.Proxy && before.UID != "":
		return nil, model.Errorf(model.Invalid, "%s has an agent, so the node cannot become a proxy node", row.Name).
			WithHint("declare the proxy node under another name, or delete this node first")
	case before.Proxy && !node.Proxy:
		return nil, model.Errorf(model.Invalid, "%s is a proxy node, so no agent can enrol under its name", row.Name).
			WithHint("delete the proxy node and its events first: muster delete node %s", row.Name)
	}
	if before.UID != "" || node.UID == "" {
		node.UID = before.UID
	}
	node.Key = before.Key
	recordedReport(before).writeTo(node)
	if node.JoinGrant == nil {
		node.JoinGrant = before.JoinGrant // no applied file holds a join grant
	} else if node.JoinGrant.Empty() {
		node.JoinGrant = nil
	}
	return before, nil
}

// maxPreviews bounds the repeated previews of one apply. Another commit has made each earlier preview invalid.
const maxPreviews = 10

// previewAndCommit previews the effect of an apply, then commits its resources. It repeats both if another commit has
// made the preview invalid.
func (a *pendingApply) previewAndCommit(ctx context.Context) (out ApplyResult, err error) {
	reason := a.by.Message
	for range maxPreviews {
		a.by.Message, a.previewed = reason, a.repo.previewed.Load()
		if out, err = a.tryCommit(ctx); !errors.Is(err, errOvertaken) {
			break
		}
	}
	return out, err
}

// tryCommit tries once to preview an apply and to commit its resources. It refuses the apply if a required
// confirmation is missing.
func (a *pendingApply) tryCommit(ctx context.Context) (ApplyResult, error) {
	out := ApplyResult{Outcomes: slices.Clone(a.outcomes)}
	var reviewed []string
	if impact := a.repo.opts.Impact; impact != nil {
		// The preview includes unchanged resources, because people want to see on which nodes they are in force.
		asked := slices.Clone(a.writes)
		at := slices.Clone(a.written)
		for i := range a.outcomes {
			if o := &a.outcomes[i]; o.Op == OpUnchanged {
				row, err := a.unchangedRow(ctx, o.Key)
				if err != nil {
					return ApplyResult{}, err
				}
				asked, at = append(asked, Write{Key: o.Key, Body: row.Body, Expect: row.Revision}), append(at, i)
			}
		}
		found, err := impact(ctx, asked, a.opts.DryRun)
		if err != nil {
			return ApplyResult{}, err
		}
		for i, landing := range found.Placements {
			out.Outcomes[at[i]].Placement = landing
			out.Outcomes[at[i]].Warnings = append(out.Outcomes[at[i]].Warnings, landing.Warnings...)
		}
		out.Affected, out.Units, out.Timings, reviewed = found.Affected, found.Units, found.Timings, found.Reviewed
		a.hasReview = found.HasReview
		for i := range out.Units {
			if a.opts.Redact {
				out.Units[i].Differences = nil
			}
		}
	}
	refused := a.refusalReason(out.Affected)
	if refused == nil {
		var err error
		if a.requests, err = a.repo.checkApproval(ctx, a.by, a.writes, reviewed, "", a.opts.DryRun); model.ClassOf(err) != model.Guarded && err != nil {
			return out, err
		}
		refused = err
	}
	if a.opts.DryRun {
		out.Refused = refused
		return out, nil
	}
	if refused != nil || len(a.writes) == 0 {
		return out, refused
	}
	if most := a.defaultMaxAffected(); out.Affected > most { // for the audit
		a.by.Message = strings.TrimPrefix(fmt.Sprintf("%s (changes %d nodes; more than %d need a confirmation)", a.by.Message, out.Affected, most), " ")
	}
	done, err := a.commit(ctx)
	if errors.Is(err, errOvertaken) {
		return out, err
	}
	if model.ClassOf(err) == model.Conflict && a.opts.Owner != "" {
		err = concurrentApplyError(err)
	}
	if len(a.opts.Expect) > 0 {
		err = staleError(err)
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

// unchangedRow returns the stored database row of a resource that the apply leaves unchanged.
func (a *pendingApply) unchangedRow(ctx context.Context, key Key) (Row, error) {
	if a.proposal == nil {
		return a.repo.opts.Store.Get(ctx, key)
	}
	row, err := a.proposal.storedRow(ctx, key)
	if err == nil && row == nil {
		err = model.Errorf(model.NotFound, "resource %s does not exist", key)
	}
	if err != nil {
		return Row{}, err
	}
	return *row, nil
}

// defaultMaxAffected returns the number of nodes that an apply may change without a confirmation. It counts the nodes
// whose assignments change.
func (a *pendingApply) defaultMaxAffected() int { return max(50, a.repo.nodes.len()/5) }

// checkAffected refuses an apply that changes the assignments of too many nodes without confirmation. A node is
// affected if its assignment changes.
func (a *pendingApply) checkAffected(affected int) error {
	most := a.opts.MaxAffected
	if most <= 0 {
		most = a.defaultMaxAffected()
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
	return model.Errorf(model.Guarded, "this change affects %d nodes; a change of more than %d nodes needs --yes%s", affected, most, a.pruneSummary()).
		WithHint("preview the change: %s; then repeat the command with --yes or --max-affected %d", look, affected)
}
