package intent

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// Machines that join are written one after the other, so that no two get one name, one key
// or the last use of a token. Those that come while one commit is under way are written
// together by the next: a fleet that comes at once costs some commits, not one for each.

// joiner is one machine that is to become a node.
type joiner struct {
	ctx     context.Context // of who waits for it
	by      Actor
	key     string
	token   pki.JoinToken
	request pki.EnrolRequest
	named   bool // a person stands for the name, and not the machine alone

	done   bool // with what follows; who holds nodeIndex.joining reads and writes it
	member pki.Member
	err    error
}

func (j *joiner) end(member pki.Member, err error) { j.done, j.member, j.err = true, member, err }

func (j *joiner) namespace() string {
	if j.token.Namespace == "" {
		return model.DefaultNamespaceName
	}
	return j.token.Namespace
}

// joinQueue has those that wait, the oldest first.
type joinQueue struct {
	mu    sync.Mutex
	waits []*joiner
}

// mostJoiners bounds one commit.
const mostJoiners = 500

func (q *joinQueue) add(j *joiner) {
	q.mu.Lock()
	q.waits = append(q.waits, j)
	q.mu.Unlock()
}

func (q *joinQueue) next() []*joiner {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waits), mostJoiners)
	list := slices.Clone(q.waits[:n])
	q.waits = slices.Delete(q.waits, 0, n)
	return list
}

// join makes a machine a node, together with those that came meanwhile.
func (s *Service) join(j *joiner) (pki.Member, error) {
	s.joins.add(j)
	s.nodes.joining.Lock()
	defer s.nodes.joining.Unlock()
	for !j.done {
		list := s.joins.next()
		if len(list) > 1 { // who waits for others does not end with one of them
			s.joinTogether(context.WithoutCancel(j.ctx), list)
		}
		for _, other := range list {
			if !other.done {
				other.end(s.joinAlone(other.ctx, other))
			}
		}
	}
	return j.member, j.err
}

// together is one commit of several machines.
type together struct {
	writes []Write
	of     []*joiner
	as     []pki.Member
	names  map[Key]bool
	uids   map[uuid.UUID]bool
	tokens map[string]*usedToken
	room   map[string]int // for nodes in namespaces that have a limit
}

// joinTogether writes those of a list whose nodes are new. Who takes the place of another
// machine, or of a node that was declared, is left for joinAlone; and all are, where somebody
// wrote meanwhile what they were held against.
func (s *Service) joinTogether(ctx context.Context, list []*joiner) {
	t := &together{names: map[Key]bool{}, uids: map[uuid.UUID]bool{}, tokens: map[string]*usedToken{}, room: map[string]int{}}
	defer s.nodes.disclaim()
	for _, j := range list {
		if err := s.joinOne(ctx, t, j); err != nil {
			j.end(pki.Member{}, err)
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
	_, err := s.commit(ctx, server("machines joined"), t.writes)
	if model.ClassOf(err) == model.Conflict {
		return
	}
	for i, j := range t.of {
		j.end(t.as[i], err)
	}
}

// joinOne adds a machine to a commit, where it is a new node by a name that nobody has.
func (s *Service) joinOne(ctx context.Context, t *together, j *joiner) error {
	if j.ctx.Err() != nil || j.token.Node != uuid.Nil || j.token.Replace {
		return nil
	}
	namespace, name := j.namespace(), NodeName(j.request.Name)
	at := Key{"Node", namespace, name}
	if t.names[at] || s.nodes.holds([]string{namespace}, name) || !j.named && s.trusted.holds(namespace, name) {
		return nil
	}
	uid := idFor(j.request)
	if t.uids[uid] || j.request.Returns != nil && !s.UnknownNode(uid) {
		return nil
	}
	if _, err := s.opts.Store.Get(ctx, at); model.ClassOf(err) != model.NotFound {
		return nil // declared, or the store is in trouble: joinAlone says so
	}
	used := t.tokens[j.token.ID]
	if j.token.Kept && used == nil {
		token, revision, err := JoinTokens{s.opts.Store}.find(ctx, j.token.ID)
		if err != nil {
			return err
		}
		used = &usedToken{token, revision}
	}
	if used != nil {
		if err := used.Left(); err != nil {
			return err
		}
	}
	if _, known := t.room[namespace]; !known {
		t.room[namespace] = s.roomIn(namespace)
	}
	if t.room[namespace] <= 0 {
		return s.full(namespace)
	}
	if _, taken := s.nodes.claim(j.key); taken {
		return nil
	}
	t.room[namespace]--
	body, err := newNode(j, name, uid)
	if err != nil {
		return err
	}
	if used != nil {
		used.Uses++
		t.tokens[j.token.ID] = used
	}
	t.names[at], t.uids[uid] = true, true
	for _, w := range append(s.nodes.lift(keyTomb+j.key), Write{Key: at, Body: body}) {
		w.By = &j.by
		t.writes = append(t.writes, w)
	}
	t.of, t.as = append(t.of, j), append(t.as, pki.Member{UID: uid, Name: name, Namespace: namespace})
	return nil
}

// roomIn is for how many more machines a namespace has room.
func (s *Service) roomIn(namespace string) int {
	most := s.LimitsFor(namespace).Nodes
	if most <= 0 {
		return math.MaxInt
	}
	return most - len(s.nodes.names([]string{namespace}))
}

// full refuses a machine that would be one too many, and says so where limits are told.
func (s *Service) full(namespace string) error {
	err := model.Errorf(model.Limited, "namespace %s has its %d nodes, the limit nodes", namespace, s.LimitsFor(namespace).Nodes).
		WithHint("spec.limits.nodes: muster edit namespace %s; machines that are gone: muster node retire NAME", namespace)
	if s.opts.Full != nil {
		s.opts.Full(namespace, "namespace_nodes", err.Message)
	}
	return err
}

// newNode is the row of a machine that was no node before.
func newNode(j *joiner, name string, uid uuid.UUID) ([]byte, error) {
	return encode(&model.Resource{
		Kind: "Node", Metadata: model.Metadata{Name: name, Namespace: j.namespace()},
		Spec: &model.NodeSpec{UID: uid.String(), JoinGrant: given(j.token), Key: j.key,
			Facts: j.request.Facts, AgentLabels: j.request.Labels, AgentGroups: sortedGroups(j.request.Groups)},
	})
}
