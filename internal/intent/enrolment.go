package intent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// Enrolment enrols joining machines as nodes. It implements pki.Registrar.
type Enrolment struct {
	*repository
	queue joinQueue
}

// NodeOfKey returns a node by the fingerprint of its machine's key. It returns false if no node has the key.
func (s *Enrolment) NodeOfKey(key string) (pki.Member, bool) {
	info, ok := s.nodes.lookupKey(key)
	return info.member(), ok
}

// RefuseKey returns an error if a machine's key belongs to a retired, replaced or refused machine.
func (s *Enrolment) RefuseKey(key string) error {
	if t, ok := s.tombstones.lookupKey(key); ok {
		return t.Err()
	}
	return nil
}

// UnknownNode reports whether neither an enrolled node nor a removed node has the given uid.
func (s *Enrolment) UnknownNode(node uuid.UUID) bool {
	_, exists := s.nodes.lookupUID(node)
	_, removed := s.tombstones.lookupRow(node.String())
	return !exists && !removed
}

// Register enrols a joining machine as a node. It implements pki.Registrar.
func (s *Enrolment) Register(ctx context.Context, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	return s.Accept(ctx, Actor{User: "token:" + token.ID, Message: "joined"}, key, token, request, false)
}

// Accept enrols a machine that an operator has accepted. The token gives the namespace, groups and labels. It need not
// be a stored token. confirmed: a person chose the name, so it may be one that a trusted group lists. Accept drops
// facts, labels and groups over their limits: the first session reports them.
func (s *Enrolment) Accept(ctx context.Context, by Actor, key string, token pki.JoinToken, request pki.EnrolRequest, confirmed bool) (pki.Member, error) {
	j := &joinRequest{ctx: ctx, by: by, key: key, token: token, request: request, confirmed: confirmed}
	if factRejection(request.Facts) != "" {
		j.request.Facts = nil
	}
	if s.labelRejection(j.namespace(), request.Labels) != "" {
		j.request.Labels = nil
	}
	if groupRejection(j.namespace(), request.Groups) != "" {
		j.request.Groups = nil
	}
	return s.join(j)
}

// enrolMachine enrols one joining machine in its own commit. It tries in this order: the node whose machine the token
// replaces, a declared node that waits for a machine, a new node by the wanted name, a new node by that name with a
// number. The caller holds nodeIndex.enrolling, so that two requests of one machine make one node.
func (s *Enrolment) enrolMachine(j *joinRequest) (pki.Member, error) {
	namespace, base := j.namespace(), NodeName(j.request.Name)
	if member, ok := s.nodes.claimKey(j.key); ok {
		return member, nil
	}
	defer s.nodes.releaseKeys()
	if r := j.request.Returns; r != nil {
		if !s.UnknownNode(r.UID) {
			return pki.Member{}, model.Errorf(model.Conflict, "node %s was restored or deleted after its machine asked to join", r.UID).
				WithHint("list nodes: muster get nodes; list deleted nodes: muster node list --retired")
		}
		if !j.confirmed && s.reserved.contains(namespace, base) {
			return pki.Member{}, model.Errorf(model.Forbidden, "a trusted group lists the node name %s, which any machine can claim", base).
				WithHint("if the group means this machine, accept the machine: muster node accept %s", base)
		}
	}
	node, ok, err := s.replaceableNode(j.ctx, j.token, namespace, base)
	if err != nil {
		return pki.Member{}, err
	}
	if ok {
		return s.replaceMachine(j, node)
	}
	if j.token.Node != uuid.Nil {
		return pki.Member{}, model.Errorf(model.Conflict, "the node of join token %s no longer exists", j.token.ID).
			WithHint("on the server, create a token for a new node: muster node token")
	}
	if member, ok, err := s.claimDeclaredNode(j, Key{"Node", namespace, base}); ok || err != nil {
		return member, err
	}
	if s.freeNodeSlots(namespace) <= 0 {
		return pki.Member{}, s.refuseOverNodeLimit(namespace)
	}
	uid := nodeUID(j.request)
	for i := 1; i <= 1000; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		if !j.confirmed && s.reserved.contains(namespace, name) {
			continue // a reserved name is taken, or no machine may choose it
		}
		if s.nodes.hasMachine([]string{namespace}, name) {
			continue // a machine has this name: no query is needed
		}
		body, err := newNode(j, name, uid)
		if err != nil {
			return pki.Member{}, err
		}
		writes, err := s.joinWrites(j, Write{Key: Key{"Node", namespace, name}, Body: body})
		if err == nil {
			_, err = s.commit(j.ctx, j.by, writes)
		}
		if model.ClassOf(err) == model.Conflict && writes != nil {
			continue // another resource took the name
		}
		return pki.Member{UID: uid, Name: name, Namespace: namespace}, err
	}
	return pki.Member{}, model.Errorf(model.Conflict, "no free name: 1,000 nodes already have names that begin with %s", base).WithHint("choose a name: start the agent with --name NAME")
}

// joinWrites returns the database writes that create or change the node of a joining machine. They create the
// node, delete its tombstone, and count one use of the join token.
func (s *Enrolment) joinWrites(j *joinRequest, node Write) ([]Write, error) {
	used, err := JoinTokens{s.opts.Store}.tokenUseWrites(j.ctx, j.token)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]Write{node}, s.tombstones.deletionWrites(keyTombstone+j.key), used), nil
}

// nodeUID returns the uid for the node of a joining machine. It is the machine's former uid or a new random one.
func nodeUID(request pki.EnrolRequest) uuid.UUID {
	if request.Returns != nil {
		return request.Returns.UID
	}
	return uuid.New()
}

// NodeName converts the name that a machine reports to a valid resource name.
func NodeName(wanted string) string {
	name := model.CleanName(wanted)
	name = strings.Trim(name[:min(len(name), 240)], "-._") // leaves bytes for a number
	if name == "" {
		return "node"
	}
	return name
}

// freeNodeSlots returns how many more nodes a namespace may have under its limit.
func (s *Enrolment) freeNodeSlots(namespace string) int {
	most := s.namespaces.limitsByName(namespace).Nodes
	if most <= 0 {
		return math.MaxInt
	}
	return most - len(s.nodes.names([]string{namespace}))
}

// refuseOverNodeLimit returns the error for a machine beyond the node limit of its namespace. It also reports the full
// namespace to Options.Full.
func (s *Enrolment) refuseOverNodeLimit(namespace string) error {
	err := model.Errorf(model.Limited, "namespace %s has reached its limit of %d nodes", namespace, s.namespaces.limitsByName(namespace).Nodes).
		WithHint("raise spec.limits.nodes: muster edit namespace %s; or retire unused nodes: muster node retire NAME", namespace)
	if s.opts.Full != nil {
		s.opts.Full(namespace, "namespace_nodes", err.Message)
	}
	return err
}

// newNode returns the JSON of a new node for the database
func newNode(j *joinRequest, name string, uid uuid.UUID) ([]byte, error) {
	spec := &model.NodeSpec{UID: uid.String(), JoinGrant: newJoinGrant(j.token), Key: j.key}
	j.report().writeTo(spec)
	return encode(&model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name, Namespace: j.namespace()}, Spec: spec})
}

// CheckJoinGrant returns an error if a join token gives new nodes invalid settings. It checks labels, groups and
// lifecycle.
func (s *Enrolment) CheckJoinGrant(ctx context.Context, token pki.JoinToken) error {
	r := model.Resource{
		Kind: "Node", Metadata: model.Metadata{Name: "node", Namespace: token.Namespace, Labels: token.Labels},
		Spec: &model.NodeSpec{Groups: token.Groups, Lifecycle: token.Lifecycle},
	}
	if err := s.opts.Validate(&r); err != nil {
		return err
	}
	if most := s.namespaces.limitsByName(token.Namespace).Labels; most > 0 && len(token.Labels) > most {
		return model.Errorf(model.Limited, "a node would get %d labels, namespace %s allows %d", len(token.Labels), token.Namespace, most).
			WithHint("set fewer labels, or raise spec.limits.labels: muster edit namespace %s", token.Namespace)
	}
	if token.Lifecycle != nil {
		return newProposal(s.repository, nil, nil).checkLifecycleHandlers(ctx, "", token.Namespace, token.Lifecycle)
	}
	return nil
}

// newJoinGrant returns the groups, labels and lifecycle that a node gets from a join token. It returns nil if the
// token gives none.
func newJoinGrant(token pki.JoinToken) *model.JoinGrant {
	g := &model.JoinGrant{Token: token.ID, Groups: token.Groups, Labels: token.Labels, Lifecycle: token.Lifecycle}
	if g.Empty() {
		return nil
	}
	return g
}

// claimDeclaredNode gives a joining machine the node that an operator declared under the machine's name. The declared
// node must not have a machine yet. If another write changes the row meanwhile, it checks the row again, at most five
// times.
func (s *Enrolment) claimDeclaredNode(j *joinRequest, at Key) (member pki.Member, ok bool, err error) {
	for range 5 {
		member, ok, err = s.tryClaimDeclaredNode(j, at)
		if model.ClassOf(err) != model.Conflict {
			break
		}
	}
	return member, ok, err
}

// tryClaimDeclaredNode makes one attempt to enrol a joining machine as a declared node. A node in a trusted group
// waits until a person confirms the name: otherwise a machine would be trusted because of the name that it chose.
func (s *Enrolment) tryClaimDeclaredNode(j *joinRequest, at Key) (pki.Member, bool, error) {
	if s.nodes.hasMachine([]string{at.Namespace}, at.Name) {
		return pki.Member{}, false, nil
	}
	row, err := s.opts.Store.Get(j.ctx, at)
	if model.ClassOf(err) == model.NotFound {
		return pki.Member{}, false, nil
	}
	if err != nil {
		return pki.Member{}, false, err
	}
	r, err := s.decode(row)
	if err != nil {
		return pki.Member{}, false, err
	}
	spec := r.Spec.(*model.NodeSpec)
	if spec.UID != "" || spec.Proxy {
		return pki.Member{}, false, nil
	}
	if !j.confirmed {
		if trusted, err := s.isTrustedNode(j.ctx, model.NodeID(row.ID), at.Namespace, at.Name); trusted || err != nil {
			return pki.Member{}, false, err
		}
	}
	uid := nodeUID(j.request)
	spec.UID, spec.Key = uid.String(), j.key
	j.report().writeTo(spec)
	if g := newJoinGrant(j.token); g != nil {
		spec.JoinGrant = g
	}
	body, err := encode(r)
	if err != nil {
		return pki.Member{}, false, err
	}
	writes, err := s.joinWrites(j, Write{Key: at, Body: body, Expect: row.Revision})
	if err != nil {
		return pki.Member{}, false, err
	}
	_, err = s.commit(j.ctx, j.by, writes)
	return pki.Member{UID: uid, Name: at.Name, Namespace: at.Namespace}, err == nil, err
}

// replaceableNode returns the existing node whose machine a joining machine may replace, according to its join token.
// It is the node that the token names, or the long absent node of the requested name. A name proves little: no machine
// replaces one in a trusted group by name alone.
func (s *Enrolment) replaceableNode(ctx context.Context, token pki.JoinToken, namespace, name string) (node NodeInfo, ok bool, err error) {
	if token.Node != uuid.Nil {
		node, ok = s.nodes.lookupUID(token.Node)
		return node, ok, nil
	}
	if !token.Replace {
		return node, false, nil
	}
	s.nodes.mu.RLock()
	node, ok = s.nodes.byUID[s.nodes.keys[Key{"Node", namespace, name}]]
	s.nodes.mu.RUnlock()
	if !ok || s.opts.Connected != nil && s.opts.Connected(node.ID) {
		return node, false, nil // the node is connected, so the joining machine is another one with the same name
	}
	trusted, err := s.isTrustedNode(ctx, node.ID, namespace, name)
	if err != nil {
		return node, false, err
	}
	if trusted {
		return node, false, model.Errorf(model.Forbidden, "node %s is in a trusted group: a machine cannot take it over by its name", name).
			WithHint("if this machine replaces the node's machine, type on the server: muster node replace %s; if not, choose another name: --name NAME", name)
	}
	if s.opts.Absent == nil {
		return node, true, nil
	}
	if wait := s.opts.Absent(node); wait > 0 {
		return node, false, model.Errorf(model.Conflict, "node %s was connected recently: another machine can take over its name only in %s", name, max(wait.Round(time.Second), time.Second)).
			WithHint("wait, or replace the machine now, on the server: muster node replace %s", name)
	}
	return node, true, nil
}

// replacedTombstoneRetention returns how long to keep a replaced machine's tombstone, until its certificate can
// no longer be renewed. It ends when the machine's certificate can no longer be used or renewed.
func (s *Enrolment) replacedTombstoneRetention() time.Duration {
	return cmp.Or(s.opts.CertificateLife, pki.NodeLife) + pki.RenewableFor
}

// replaceMachine gives an existing node to a joining machine, in place of the former machine. The node keeps its ids,
// events and history; the former machine gets a tombstone.
func (s *Enrolment) replaceMachine(j *joinRequest, node NodeInfo) (pki.Member, error) {
	s.writing.Lock() // no write comes between reading and writing
	defer s.writing.Unlock()
	node, ok := s.nodes.lookupUID(node.UID)
	if !ok {
		return pki.Member{}, model.Errorf(model.NotFound, "the node was deleted while this machine asked to replace the node's machine").WithHint("wait until the agent of the machine asks again")
	}
	at := Key{"Node", node.Namespace, node.Name}
	row, err := s.opts.Store.Get(j.ctx, at)
	if err != nil {
		return pki.Member{}, err
	}
	r, err := s.decode(row)
	if err != nil {
		return pki.Member{}, err
	}
	spec := r.Spec.(*model.NodeSpec)
	if spec.Key = j.key; j.request.Facts != nil {
		spec.Facts = j.request.Facts
	}
	body, err := encode(r)
	if err != nil {
		return pki.Member{}, err
	}
	writes, err := s.joinWrites(j, Write{Key: at, Body: body, Expect: row.Revision})
	if err != nil {
		return pki.Member{}, err
	}
	if node.Key != "" && node.Key != j.key {
		old := Tombstone{Name: node.Name, Namespace: node.Namespace, Key: node.Key, Cause: ReasonReplaced, Reason: j.token.Note, By: j.token.By, At: s.opts.Now().UTC()}
		old.Until = old.At.Add(s.replacedTombstoneRetention())
		// The tombstone comes before the node: the change of the node's key ends the session of the old machine, and the
		// refusal reads the tombstone.
		writes = slices.Insert(writes, 0, old.write(keyTombstone+node.Key))
	}
	_, err = s.commitLocked(j.ctx, Actor{User: "token:" + j.token.ID, Message: "replaced the machine"}, writes)
	return pki.Member{UID: node.UID, Name: node.Name, Namespace: node.Namespace}, err
}
