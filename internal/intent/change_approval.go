package intent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// A change of the policies on nodes of a group with review takes two people. The command of the first records a request, and
// the same command of the second commits the change. The request has the digest of the writes, so each other change needs a
// request of its own.

// reviewKind is the kind of database rows for changes that wait for approval. The name of a row is the digest of its
// writes.
const reviewKind = "review"

// reviewLife is the time for a second person to approve a requested change.
const reviewLife = 7 * 24 * time.Hour

// maxReviews bounds the open change requests of one person.
const maxReviews = 100

// Limits of the nodes, resources and bytes of differences in a request.
const (
	maxReviewedNodes   = 50
	maxReviewedChanges = 100
	maxReviewedText    = 64 << 10 // bytes of all differences
)

// ChangeRequest is the stored request of a change that waits for the approval of another person.
type ChangeRequest struct {
	ID      string `json:"-"` // digest of the writes
	User    string
	Maker   string `json:",omitempty"` // of the token in use
	At      time.Time
	Message string            `json:",omitempty"`
	Command string            `json:",omitempty"` // carries the change out, typed by another person
	Count   int               `json:",omitempty"` // of nodes with review whose policies or review change
	Nodes   []string          `json:",omitempty"` // the first of these, as far as they are in the namespaces of the change
	Writes  int               `json:",omitempty"` // resources that change
	Changes []RequestedChange `json:",omitempty"` // the first of these
	// Namespaces has the namespaces of all resources that change, ascending.
	Namespaces []string `json:",omitempty"`
}

// RequestedChange is the change of one resource in a request.
type RequestedChange struct {
	Key  Key
	Op   Op
	Diff string `json:",omitempty"` // unified, without secrets; cut where the request is long
}

// ExpiresAt returns the time until which another person may approve the change.
func (q *ChangeRequest) ExpiresAt() time.Time { return q.At.Add(reviewLife) }

// decodeChangeRequest decodes the stored request for the approval of a change.
func decodeChangeRequest(row Row) (q ChangeRequest, err error) {
	if err := json.Unmarshal(row.Body, &q); err != nil {
		return q, fmt.Errorf("decode the stored record %s: %w", row.Key, err)
	}
	q.ID = row.Name
	return q, nil
}

// Requests returns the open requests of changes, the oldest first.
func (s *Rollouts) Requests(ctx context.Context) (list []ChangeRequest, err error) {
	now := s.opts.Now()
	for row, err := range s.rows(ctx, ListQuery{Kind: reviewKind}) {
		if err != nil {
			return nil, err
		}
		q, err := decodeChangeRequest(row)
		if err != nil {
			return nil, err
		}
		if now.Before(q.ExpiresAt()) {
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(a, b ChangeRequest) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// describe sets the fields of a request that show its change to people.
func (q *ChangeRequest) describe(ctx context.Context, r *repository, writes []Write, nodes []string) error {
	q.Namespaces, q.Count = namespacesOf(writes), len(nodes)
	q.Nodes = filterNodes(q.Namespaces, nodes)
	q.Nodes = q.Nodes[:min(len(q.Nodes), maxReviewedNodes)]
	room := maxReviewedText
	for _, w := range writes {
		if w.Kind == RolloutKind {
			continue
		}
		if q.Writes++; len(q.Changes) == maxReviewedChanges {
			continue
		}
		change := RequestedChange{Key: w.Key, Op: OpUpdated}
		was := w.Key
		switch {
		case w.Retire:
			change.Op = OpRetired
		case w.Body == nil:
			change.Op = OpDeleted
		case w.From != "":
			change.Op, was.Name = OpRenamed, w.From
		case w.Expect == 0:
			change.Op = OpCreated
		}
		var before []byte
		if w.Expect != 0 {
			row, err := r.opts.Store.Get(ctx, was)
			if err != nil {
				return err
			}
			before = row.Body
		}
		if room > 0 {
			change.Diff = model.Truncate(difference(r.redactBody(was, before), r.redactBody(w.Key, w.Body)), room)
			room -= len(change.Diff) // below 0 with the mark of a cut
		}
		q.Changes = append(q.Changes, change)
	}
	return nil
}

// isMadeBy reports whether a person made the request, directly or by a token.
func (q *ChangeRequest) isMadeBy(by Actor) bool {
	own := []string{q.User, cmp.Or(q.Maker, q.User)}
	return slices.Contains(own, by.User) || slices.Contains(own, cmp.Or(by.Maker, by.User))
}

// checkApproval decides whether a change waits for another person's approval, or was approved now. Another person
// approves it by requesting the same change. If the change needs no review, there are no writes. Otherwise it returns
// the reason why the change waits, and records the request unless it is a dry run. command is the command that makes
// the change; empty: apply, delete or rename.
func (r *repository) checkApproval(ctx context.Context, by Actor, writes []Write, nodes []string, command string, dryRun bool) (end []Write, err error) {
	if len(nodes) == 0 || len(writes) == 0 {
		return nil, nil
	}
	digest, err := r.changeDigest(writes)
	if err != nil {
		return nil, err
	}
	now := r.opts.Now()
	namespaces := namespacesOf(writes)
	key := Key{Kind: reviewKind, Name: digest}
	if len(namespaces) == 1 {
		key.Namespace = namespaces[0] // people with rights in this namespace see the request
	}
	request := ChangeRequest{User: by.User, Maker: by.Maker, At: now.UTC(), Message: by.Message, Command: cmp.Or(command, changeCommand(writes))}
	var expired []Write
	known, open := false, 0
	for row, err := range r.rows(ctx, ListQuery{Kind: reviewKind}) {
		var q ChangeRequest
		if err == nil {
			q, err = decodeChangeRequest(row)
		}
		switch remove := (Write{Key: row.Key, Expect: row.Revision}); {
		case err != nil:
			return nil, err
		case now.Sub(q.At) > reviewLife:
			expired = append(expired, remove)
		case row.Name == digest && !q.isMadeBy(by):
			return []Write{remove}, nil
		case row.Name == digest:
			request, known = q, true
		case q.isMadeBy(by):
			open++
		}
	}
	if !known && !dryRun && open >= maxReviews {
		return nil, model.Errorf(model.Limited, "user %s already has %s that await approval, the limit is %d", by.User, model.CountNoun(open, "request"), maxReviews).
			WithHint("let another administrator carry them out, or wait: each ends after a week. List them: muster rollout requests")
	}
	if !known && !dryRun {
		if err := request.describe(ctx, r, writes, nodes); err != nil {
			return nil, err
		}
		body, err := json.Marshal(request)
		if err != nil {
			return nil, fmt.Errorf("encode the request of a change: %w", err)
		}
		if i := slices.IndexFunc(expired, func(w Write) bool { return w.Key == key }); i >= 0 {
			expired[i].Body = body
		} else {
			expired = append(expired, Write{Key: key, Body: body})
		}
		names := make([]string, len(writes))
		for i, w := range writes {
			names[i] = w.Key.String()
		}
		by.Message = strings.TrimSuffix(fmt.Sprintf("requested %s, awaits another person: %s", joinFirst(names), by.Message), ": ")
		if _, err := r.commit(ctx, by, expired); err != nil {
			return nil, err
		}
	}
	refusal := model.Errorf(model.Guarded, "this change awaits the approval of another person, because it changes policies or approval rules of %s in a group that requires approval%s",
		model.CountNoun(len(nodes), "node"), strings.TrimSuffix(": "+joinFirst(filterNodes(namespaces, nodes)), ": "))
	if dryRun && !known {
		return nil, refusal.WithHint("the command without --dry-run, or muster apply, requests it; then another administrator repeats the command")
	}
	return nil, refusal.WithHint("%s requested it; another administrator repeats the same command until %s: muster rollout requests", request.User, request.ExpiresAt().Format("2006-01-02 15:04 MST"))
}

// changeCommand returns the muster command, such as muster node rename, with which a person would make a
// change. The server does not know the files of muster apply.
func changeCommand(writes []Write) string {
	var deleted, retired, namespaces []string
	for _, w := range writes {
		switch {
		case w.From != "":
			return AddNamespaceFlag(fmt.Sprintf("muster node rename %s %s", w.From, w.Name), w.Namespace)
		case w.Retire:
			retired = append(retired, w.Name)
		case w.Body == nil:
			deleted = append(deleted, strings.ToLower(w.Kind)+"/"+w.Name)
		}
		if w.Namespace != "" && !slices.Contains(namespaces, w.Namespace) {
			namespaces = append(namespaces, w.Namespace)
		}
	}
	verb, names := "delete", deleted
	if len(retired) > 0 {
		verb, names = "node retire", retired
	}
	switch namespace := strings.Join(namespaces, ""); {
	case len(names) < len(writes):
		return "muster apply -f FILE (the files of the request)"
	case len(namespaces) > 1 && len(retired) > 0:
		return "muster node retire -A -l LABELS (the nodes of the request)"
	case len(namespaces) > 1:
		return "muster delete -f FILE (the files of the request)"
	default:
		return AddNamespaceFlag("muster "+verb+" "+strings.Join(names, " "), namespace)
	}
}

// AddNamespaceFlag adds the flag -n with a namespace to a command, except for the default namespace. The
// default namespace needs no flag.
func AddNamespaceFlag(command, namespace string) string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return command
	}
	return command + " -n " + namespace
}

// namespacesOf returns the namespaces of the resources that a change writes, ascending.
func namespacesOf(writes []Write) (list []string) {
	for _, w := range writes {
		switch w.Kind {
		case RolloutKind:
		case "Namespace":
			list = append(list, w.Name)
		default:
			list = append(list, w.Namespace)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// filterNodes returns the nodes of a list that belong to any of the given namespaces. The author of a change
// may not see other nodes.
func filterNodes(namespaces, nodes []string) (names []string) {
	for _, name := range nodes {
		namespace, _, found := strings.Cut(name, "/")
		if !found {
			namespace = model.DefaultNamespaceName
		}
		if slices.Contains(namespaces, namespace) {
			names = append(names, name)
		}
	}
	return names
}

// joinFirst joins the first five names of a list to a text.
func joinFirst(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += ", …"
	}
	return text
}

// changeDigest returns a hash of a change's database writes, to recognise the same change again. The digest is equal for
// each person who repeats a command. It leaves out values that agents report, and silences and roll-outs, which name
// the person.
func (r *repository) changeDigest(writes []Write) (string, error) {
	type part struct {
		Key, Source string
		Body        json.RawMessage `json:",omitempty"`
		Expect      int64
		Retire      bool
	}
	parts := make([]part, len(writes))
	for i, w := range writes {
		parts[i] = part{Key: w.Key.String(), Source: w.Source().String(), Body: w.Body, Expect: w.Expect, Retire: w.Retire}
		if w.Kind == "Silence" || w.Kind == RolloutKind {
			parts[i].Body = nil
		}
		if w.Kind != "Node" {
			continue
		}
		parts[i].Expect = 0 // agents change it
		if w.Body != nil {
			body, err := declaredBody(Row{Key: w.Key, Body: w.Body})
			if err != nil {
				return "", err
			}
			parts[i].Body = body
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.Key, b.Key) })
	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("encode a change for its approval: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
