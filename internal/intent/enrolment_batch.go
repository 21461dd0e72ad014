package intent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// joinRequest is the request of one machine to become a node, with the outcome. The outcome is the node or an error.
type joinRequest struct {
	ctx       context.Context // of the waiting caller
	by        Actor
	key       string
	token     pki.JoinToken
	request   pki.EnrolRequest
	confirmed bool // a person confirmed the name that the machine wants

	// The outcome of the request. Only the holder of the lock nodeIndex.enrolling reads and writes these fields.
	done   bool
	member pki.Member
	err    error
}

// setOutcome stores in a machine's join request whether the request succeeded, with the node or the error. It
// is the node or an error.
func (j *joinRequest) setOutcome(member pki.Member, err error) {
	j.done, j.member, j.err = true, member, err
}

// namespace returns the namespace for the node of a joining machine.
func (j *joinRequest) namespace() string {
	return cmp.Or(j.token.Namespace, model.DefaultNamespaceName)
}

// report returns the first report of a joining machine's agent. It has no handlers of the keepalive, because the agent
// sends these in its first session.
func (j *joinRequest) report() AgentReport {
	return AgentReport{Facts: j.request.Facts, Labels: j.request.Labels, Groups: sortedGroups(j.request.Groups), Entity: j.request.Entity}
}

// joinQueue has the join requests of waiting machines, oldest first. One commit follows the other, so that no two
// machines get one name, one key or the last use of a token. The next commit writes all machines that came while a
// commit ran: a fleet that joins at once costs a few commits, not one for each machine.
type joinQueue struct {
	mu    sync.Mutex
	waits []*joinRequest
}

// maxJoinBatch bounds the machines that one commit enrols.
const maxJoinBatch = 500

// add appends a machine's join request to the queue.
func (q *joinQueue) add(j *joinRequest) {
	q.mu.Lock()
	q.waits = append(q.waits, j)
	q.mu.Unlock()
}

// takeBatch removes the oldest join requests from the queue and returns the requests.
func (q *joinQueue) takeBatch() []*joinRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waits), maxJoinBatch)
	list := slices.Clone(q.waits[:n])
	q.waits = slices.Delete(q.waits, 0, n)
	return list
}

// join enrols a machine, together with other waiting machines in one commit.
func (s *Enrolment) join(j *joinRequest) (pki.Member, error) {
	s.queue.add(j)
	s.nodes.enrolling.Lock()
	defer s.nodes.enrolling.Unlock()
	for !j.done {
		list := s.queue.takeBatch()
		if len(list) > 1 { // a batch goes on when the caller of one request has gone
			s.enrolBatch(context.WithoutCancel(j.ctx), list)
		}
		for _, other := range list {
			if !other.done {
				other.setOutcome(s.enrolMachine(other))
			}
		}
	}
	return j.member, j.err
}

// joinBatch collects the database writes that enrol several machines in one commit
type joinBatch struct {
	writes    []Write
	of        []*joinRequest
	as        []pki.Member
	names     map[Key]bool
	uids      map[uuid.UUID]bool
	tokens    map[string]*usedToken
	freeSlots map[string]int // node slots left, for each namespace with a node limit
}

// enrolBatch enrols several machines as new nodes in one commit. It leaves replacements and declared nodes to
// enrolMachine, and all requests if a row changed since the batch read it.
func (s *Enrolment) enrolBatch(ctx context.Context, list []*joinRequest) {
	t := &joinBatch{names: map[Key]bool{}, uids: map[uuid.UUID]bool{}, tokens: map[string]*usedToken{}, freeSlots: map[string]int{}}
	defer s.nodes.releaseKeys()
	for _, j := range list {
		if err := s.addToBatch(ctx, t, j); err != nil {
			j.setOutcome(pki.Member{}, err)
		}
	}
	for _, token := range t.tokens {
		write, err := token.write()
		if err != nil {
			return
		}
		t.writes = append(t.writes, write)
	}
	if len(t.of) == 0 {
		return
	}
	_, err := s.commit(ctx, serverActor("machines joined"), t.writes)
	if model.ClassOf(err) == model.Conflict {
		return
	}
	for i, j := range t.of {
		j.setOutcome(t.as[i], err)
	}
}

// addToBatch adds a join request to the batch if the machine needs a new node with unused name. It does so only
// for a new node with an unused name.
func (s *Enrolment) addToBatch(ctx context.Context, t *joinBatch, j *joinRequest) error {
	if j.ctx.Err() != nil || j.token.Node != uuid.Nil || j.token.Replace {
		return nil
	}
	namespace, name := j.namespace(), NodeName(j.request.Name)
	at := Key{"Node", namespace, name}
	if t.names[at] || s.nodes.hasMachine([]string{namespace}, name) || !j.confirmed && s.reserved.contains(namespace, name) {
		return nil
	}
	uid := nodeUID(j.request)
	if t.uids[uid] || j.request.Returns != nil && !s.UnknownNode(uid) {
		return nil
	}
	if _, err := s.opts.Store.Get(ctx, at); model.ClassOf(err) != model.NotFound {
		return nil // a declared node has the name, or the store fails: enrolMachine handles both
	}
	used := t.tokens[j.token.ID]
	if j.token.Stored && used == nil {
		token, revision, err := JoinTokens{s.opts.Store}.find(ctx, j.token.ID)
		if err != nil {
			return err
		}
		used = &usedToken{token, revision}
	}
	if used != nil {
		if err := used.CheckUses(); err != nil {
			return err
		}
	}
	if _, known := t.freeSlots[namespace]; !known {
		t.freeSlots[namespace] = s.freeNodeSlots(namespace)
	}
	if t.freeSlots[namespace] <= 0 {
		return s.refuseOverNodeLimit(namespace)
	}
	if _, taken := s.nodes.claimKey(j.key); taken {
		return nil
	}
	t.freeSlots[namespace]--
	body, err := newNode(j, name, uid)
	if err != nil {
		return err
	}
	if used != nil {
		used.Uses++
		t.tokens[j.token.ID] = used
	}
	t.names[at], t.uids[uid] = true, true
	for _, w := range append(s.tombstones.deletionWrites(keyTombstone+j.key), Write{Key: at, Body: body}) {
		w.By = &j.by
		t.writes = append(t.writes, w)
	}
	t.of, t.as = append(t.of, j), append(t.as, pki.Member{UID: uid, Name: name, Namespace: namespace})
	return nil
}

// tokenKind is the kind of database rows with join tokens.
const tokenKind = "jointoken"

// JoinTokens stores join tokens in the database of the declared resources
type JoinTokens struct{ Store Store }

// joinTokenKey returns the key of the database row of a join token.
func joinTokenKey(id string) Key { return Key{Kind: tokenKind, Name: id} }

// Create stores a join token.
func (s JoinTokens) Create(ctx context.Context, by Actor, t pki.JoinToken) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode join token %s: %w", t.ID, err)
	}
	_, err = s.Store.Commit(ctx, by, []Write{{Key: joinTokenKey(t.ID), Body: body}})
	return err
}

// List returns all join tokens, sorted by id.
func (s JoinTokens) List(ctx context.Context) ([]pki.JoinToken, error) {
	rows, err := s.Store.List(ctx, ListQuery{Kind: tokenKind})
	if err != nil {
		return nil, err
	}
	list := make([]pki.JoinToken, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.Body, &list[i]); err != nil {
			return nil, fmt.Errorf("read join token %s: %w", row.Name, err)
		}
	}
	return list, nil
}

// Delete removes a join token. Nodes that joined with the token stay.
func (s JoinTokens) Delete(ctx context.Context, by Actor, id string) error {
	_, err := s.Store.Commit(ctx, by, []Write{{Key: joinTokenKey(id), Expect: -1}})
	return err
}

// Find returns a join token by its id.
func (s JoinTokens) Find(ctx context.Context, id string) (pki.JoinToken, error) {
	t, _, err := s.find(ctx, id)
	return t, err
}

// find returns a join token and the revision of its database row.
func (s JoinTokens) find(ctx context.Context, id string) (t pki.JoinToken, revision int64, err error) {
	row, err := s.Store.Get(ctx, joinTokenKey(id))
	if err != nil {
		return t, 0, err
	}
	if err := json.Unmarshal(row.Body, &t); err != nil {
		return t, 0, fmt.Errorf("read join token %s: %w", id, err)
	}
	t.Stored = true
	return t, row.Revision, nil
}

// tokenUseWrites returns the database write that increments a join token's count of uses. It returns nil if the
// token is not stored. The commit that creates the node contains them, so that no use is counted without a
// node. The caller holds nodeIndex.enrolling.
func (s JoinTokens) tokenUseWrites(ctx context.Context, token pki.JoinToken) ([]Write, error) {
	if !token.Stored {
		return nil, nil
	}
	t, revision, err := s.find(ctx, token.ID)
	if err != nil {
		return nil, err
	}
	if err := t.CheckUses(); err != nil {
		return nil, err
	}
	t.Uses++
	write, err := (&usedToken{t, revision}).write()
	return []Write{write}, err
}

// usedToken is a join token whose count of uses is one higher than in the database. The increased count is not yet
// written.
type usedToken struct {
	pki.JoinToken
	revision int64 // revision of the token's row when the row was read
}

// write returns the database write that stores a join token's increased count of uses
func (u *usedToken) write() (Write, error) {
	body, err := json.Marshal(u.JoinToken)
	if err != nil {
		return Write{}, fmt.Errorf("encode join token %s: %w", u.ID, err)
	}
	return Write{Key: joinTokenKey(u.ID), Body: body, Expect: u.revision}, nil
}
