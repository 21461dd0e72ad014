package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
)

// Pending is the list of machines that wait for acceptance by a person. The list is in memory only: after a restart
// the machines ask again. New machines are bounded in number, by network and in bytes; former nodes, which prove their
// identity with a certificate, are bounded in number alone. Pending is safe for concurrent use.
type Pending struct {
	now         func() time.Time
	capacity    int
	newMachines *authlimit.Limiter // throttles new machines by network

	mu             sync.Mutex
	machines       map[string]*pendingMachine // by the fingerprint of the machine's key
	lastForgetting time.Time
	passed         uint64
	overflow       uint64
}

// pendingMachine is a machine that waits for acceptance by a person.
type pendingMachine struct {
	key         string
	request     pki.EnrolRequest // newest enrolment request of the machine
	address     string
	network     netip.Prefix
	since, last time.Time
}

const (
	// maxPendingPerNetwork bounds the waiting machines of one network.
	maxPendingPerNetwork = 64
	// pendingTimeout is the time after which a machine that stopped asking is forgotten.
	pendingTimeout = 5 * time.Minute
	// Intervals in which a machine asks again: short in its first minutes, because a person may be waiting beside it.
	askInterval      = 30 * time.Second
	firstAskInterval = 5 * time.Second
	firstAskTime     = 2 * time.Minute
	// maxMachineBytes bounds the names, labels and facts that are kept of one machine.
	maxMachineBytes = 16 << 10
)

// pendingHint is the hint of the error when too many machines wait to be accepted.
const pendingHint = "on the server: muster node list --pending; to join many machines, use a token: muster node token"

// NewPending returns an empty list of pending machines, shown as queue "pending" in muster get queues.
func NewPending(r *queue.Registry, now func() time.Time) *Pending {
	capacity, policy := r.Bounds("pending")
	p := &Pending{now: now, capacity: int(capacity), newMachines: authlimit.New(now), machines: map[string]*pendingMachine{}}
	r.Register("pending", func() queue.Info {
		p.mu.Lock()
		defer p.mu.Unlock()
		return queue.Info{Name: "pending", Capacity: capacity, Depth: int64(len(p.machines)), Unit: "items", Policy: policy, Passed: p.passed, Overflow: p.overflow}
	})
	return p
}

// AddRequest adds a joining machine to the list of waiting machines, or refuses the machine. A full list is one
// reason. again is the time until it should ask again.
func (p *Pending) AddRequest(key string, request pki.EnrolRequest) (again time.Duration, err error) {
	if countRequestBytes(&request) > maxMachineBytes {
		return 0, model.Errorf(model.TooLarge, "this machine's labels and facts have more than %d bytes", maxMachineBytes)
	}
	whence := model.HostOf(request.Address)
	from := authlimit.Network(whence)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	w := p.machines[key]
	stranger := request.Returns == nil
	if w == nil || w.network != from {
		p.removeSilentMachines(now)
		switch {
		case stranger && p.countNetworkMachines(from) >= maxPendingPerNetwork:
			p.overflow++
			return 0, model.Errorf(model.Limited, "%d machines of the network of %s already wait to be accepted", maxPendingPerNetwork, whence).WithHint(pendingHint)
		case w == nil && len(p.machines) >= p.capacity:
			p.overflow++
			return 0, model.Errorf(model.Limited, "%d machines already wait to be accepted", p.capacity).WithHint(pendingHint)
		case w == nil && stranger && !p.newMachines.Allow(whence):
			p.overflow++
			return 0, model.Errorf(model.Limited, "too many new machines from %s request to join", whence).
				WithHint("the agent asks again automatically; to join many machines, use a token: muster node token")
		}
	}
	if w == nil {
		w = &pendingMachine{key: key, since: now}
		p.machines[key] = w
		p.passed++
	}
	w.request, w.address, w.network, w.last = request, whence, from, now
	if now.Sub(w.since) < firstAskTime {
		return firstAskInterval, nil
	}
	return askInterval, nil
}

// countNetworkMachines returns the number of waiting machines of one network. The caller holds mu.
func (p *Pending) countNetworkMachines(network netip.Prefix) (n int) {
	for _, w := range p.machines {
		if w.network == network {
			n++
		}
	}
	return n
}

// removeSilentMachines removes pending machines that no longer repeat their request. The caller holds mu.
func (p *Pending) removeSilentMachines(now time.Time) {
	if now.Sub(p.lastForgetting) < time.Second {
		return
	}
	p.lastForgetting = now
	maps.DeleteFunc(p.machines, func(_ string, w *pendingMachine) bool { return now.Sub(w.last) > pendingTimeout })
}

// removeMachine removes an accepted or refused machine from the list of pending machines.
func (p *Pending) removeMachine(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.machines, key)
}

// listMachines returns the waiting machines, the longest waiting one first, or nil if none waits.
func (p *Pending) listMachines() (out []pendingMachine) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeSilentMachines(p.now())
	for _, w := range p.machines {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b pendingMachine) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.key, b.key))
	})
	return out
}

// Len returns the number of waiting machines.
func (p *Pending) Len() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.machines)
}

// minFingerprint is the number of digits of a key fingerprint that identify a machine, as lists show them: 64 bits, so that
// nobody can make a key with the same beginning while one waits, and few enough to compare by eye.
const minFingerprint = 16

// findMachine returns the pending machine with a given name, or with a public key of given first digits. A name
// that two machines have is an error.
func (p *Pending) findMachine(which string) (pendingMachine, error) {
	digits := strings.ToLower(strings.TrimPrefix(which, "sha256:"))
	var found []pendingMachine
	for _, w := range p.listMachines() {
		if intent.NodeName(w.request.Name) == which || len(digits) >= minFingerprint && strings.HasPrefix(w.key, digits) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return pendingMachine{}, model.Errorf(model.NotFound, "no waiting machine has the name %q or a key that begins with it", which).
			WithHint("list pending machines: muster node list --pending; a machine asks again every half minute")
	}
	keys := make([]string, 0, len(found))
	for _, w := range found[:min(len(found), 10)] {
		keys = append(keys, fmt.Sprintf("%s from %s", w.key, w.address))
	}
	return pendingMachine{}, model.Errorf(model.Conflict, "%d machines request the name %q:\n  %s", len(found), which, strings.Join(keys, "\n  ")).
		WithHint("compare the keys with the key on the machine, then type the beginning of the right key: muster node accept %s", found[0].key[:minFingerprint])
}

// countRequestBytes returns the total length in bytes of all texts in an enrolment request
func countRequestBytes(r *pki.EnrolRequest) int {
	n := len(r.Name) + len(r.MachineID)
	for _, set := range []map[string]string{r.Labels, r.Facts} {
		for k, v := range set {
			n += len(k) + len(v)
		}
	}
	for _, g := range r.Groups {
		n += len(g)
	}
	return n
}

// registerPending registers the operations about machines that wait to be accepted.
func registerPending(at nodeOperations) {
	op.Handle(at, op.Get("listPending", "/api/v1/pending", "nodes", "List machines that wait to be accepted"), access.NeedOnCluster(access.Read, "pending"), (*nodeRequest).listPending)
	op.Handle(at, op.Post("acceptPending", "/api/v1/pending/accept", "nodes", "Accept a machine", model.NotFound, model.Conflict), access.NeedOnCluster(access.Change, "pending"), (*nodeRequest).acceptPending)
	op.Handle(at, op.Post("acceptReturning", "/api/v1/pending/accept-returning", "nodes", "Accept all machines that return with a certificate of this server"), access.NeedOnCluster(access.Change, "pending"), (*nodeRequest).acceptReturning)
	op.Handle(at, op.Post("refusePending", "/api/v1/pending/refuse", "nodes", "Refuse a machine permanently", model.NotFound, model.Conflict), access.NeedOnCluster(access.Change, "pending"), (*nodeRequest).refusePending)
}

// listPending returns the machines that wait to be accepted.
func (s *nodeRequest) listPending(ctx context.Context, in *list.Labelled) (*op.Body[v1.PendingList], error) {
	out := v1.PendingList{Items: []v1.Pending{}}
	for _, w := range s.PendingMachines.listMachines() {
		p := v1.Pending{
			Key: w.key, Name: intent.NodeName(w.request.Name), Address: w.address, MachineID: w.request.MachineID, Since: w.since.UTC(), LastRequest: w.last.UTC(),
			Labels: w.request.Labels, Facts: w.request.Facts, Groups: w.request.Groups,
		}
		if r := w.request.Returns; r != nil {
			p.Returns = &v1.Returning{UID: r.UID.String(), Namespace: r.Namespace, Certified: r.Certified.UTC()}
		}
		out.Items = append(out.Items, p)
	}
	var err error
	out.Items, err = list.FilterLabelledRows(ctx, s.View, *in, out.Items, func(p *v1.Pending) map[string]string { return p.Labels })
	return op.Answer(out), err
}

// acceptPending accepts one waiting machine as a node.
func (s *nodeRequest) acceptPending(ctx context.Context, in *struct{ Body v1.PendingAccept }) (*op.Body[v1.Member], error) {
	r := in.Body
	w, err := s.PendingMachines.findMachine(r.Machine)
	if err != nil {
		return nil, err
	}
	if r.Namespace == "" && w.request.Returns != nil {
		r.Namespace = w.request.Returns.Namespace
	}
	r.Namespace = cmp.Or(r.Namespace, model.DefaultNamespaceName)
	if r.Name != "" {
		if name := intent.NodeName(r.Name); name != r.Name {
			return nil, model.Errorf(model.Invalid, "%q is not a valid node name: use lower-case letters and digits, with . _ - between them", r.Name).WithHint("repeat with --name %s", name)
		}
		if s.Intent.HasMachine(r.Namespace, r.Name) {
			return nil, model.Errorf(model.Conflict, "node %s already exists", r.Name).
				WithHint("choose another --name; or replace the node by this machine: muster node replace %s", r.Name)
		}
		w.request.Name = r.Name
	}
	named := r.Name != "" || r.Machine == intent.NodeName(w.request.Name) // false: the machine is identified by its key alone
	member, err := s.acceptMachine(ctx, &w, pki.JoinToken{Namespace: r.Namespace, Groups: r.Groups, Labels: r.Labels}, named)
	return op.Answer(member), err
}

// acceptMachine enrols a waiting machine as a node. The node gets the namespace, labels and groups that a join token
// would give.
func (s *nodeRequest) acceptMachine(ctx context.Context, w *pendingMachine, token pki.JoinToken, named bool) (v1.Member, error) {
	if err := s.RequireNamespace(ctx, token.Namespace); err != nil {
		return v1.Member{}, err
	}
	if err := s.Intent.CheckJoinGrant(ctx, token); err != nil {
		return v1.Member{}, err
	}
	member, err := s.Intent.Accept(ctx, access.AuthorOf(ctx, "accepted, request from "+w.address), w.key, token, w.request, named)
	if err != nil {
		return v1.Member{}, err
	}
	s.PendingMachines.removeMachine(w.key)
	return v1.Member{Name: member.Name, Namespace: member.Namespace, UID: member.UID.String(), Key: w.key}, nil
}

// acceptReturning accepts all pending machines that prove to be former nodes of the server. Their certificate is the
// proof. It leaves the others waiting, with the reason.
func (s *nodeRequest) acceptReturning(ctx context.Context, in *struct{ Body v1.PendingReturning }) (*op.Body[v1.AcceptedMachines], error) {
	out := v1.AcceptedMachines{Items: []v1.Member{}, NotAccepted: []v1.NotAccepted{}}
	for _, w := range s.PendingMachines.listMachines() {
		if w.request.Returns == nil {
			continue
		}
		member, err := s.acceptMachine(ctx, &w, pki.JoinToken{Namespace: cmp.Or(w.request.Returns.Namespace, model.DefaultNamespaceName), Groups: in.Body.Groups, Labels: in.Body.Labels}, false)
		switch class := model.ClassOf(err); {
		case err == nil:
			out.Items = append(out.Items, member)
		case class == model.Internal || class == model.Unavailable:
			return nil, err
		default:
			left := v1.NotAccepted{Name: intent.NodeName(w.request.Name), Key: w.key, Reason: err.Error()}
			var said *model.Error
			if errors.As(err, &said) {
				left.Reason, left.Hint = said.Message, said.Hint
			}
			out.NotAccepted = append(out.NotAccepted, left)
		}
	}
	return op.Answer(out), nil
}

// refusePending refuses a pending machine permanently and blocks its key.
func (s *nodeRequest) refusePending(ctx context.Context, in *struct{ Body v1.PendingRefuse }) (*op.Body[v1.Member], error) {
	w, err := s.PendingMachines.findMachine(in.Body.Machine)
	if err != nil {
		return nil, err
	}
	name := intent.NodeName(w.request.Name)
	t := intent.Tombstone{Cause: intent.ReasonDeclined, Name: name, Reason: in.Body.Reason}
	if err := s.Intent.BlockKey(ctx, access.AuthorOf(ctx, in.Body.Reason), w.key, t); err != nil {
		return nil, err
	}
	s.PendingMachines.removeMachine(w.key)
	return op.Answer(v1.Member{Name: name, Key: w.key}), nil
}

// wrongSecretThrottle limits how many different wrong join tokens and certificates one network may send. A hundred
// agents behind one address whose join token was deleted are one attempt.
type wrongSecretThrottle struct {
	*authlimit.Limiter
	now func() time.Time

	mu        sync.Mutex
	lastShown map[secretAttempt]time.Time // time when a network last sent a secret
}

// secretAttempt is the map key for one wrong join token or certificate from one network.
type secretAttempt struct {
	net    netip.Prefix
	secret string // a name for the secret, never the secret itself
}

const (
	// wrongSecretMemory is the life of the memory of a secret after its last attempt.
	wrongSecretMemory = 24 * time.Hour
	// maxRememberedSecrets bounds the table. When it is full of secrets within wrongSecretMemory, every attempt counts.
	maxRememberedSecrets = 10_000
)

// newWrongSecretThrottle returns a throttle without recorded attempts.
func newWrongSecretThrottle(now func() time.Time) *wrongSecretThrottle {
	return &wrongSecretThrottle{Limiter: authlimit.New(now), now: now, lastShown: map[secretAttempt]time.Time{}}
}

// allowWrongSecret counts a wrong token or certificate, and reports whether the network may try others.
func (g *wrongSecretThrottle) allowWrongSecret(address, secret string) bool {
	return secret != "" && g.isRepeatedSecret(secretAttempt{authlimit.Network(address), secret}) || g.Allow(address)
}

// isRepeatedSecret reports whether the network already sent the same wrong token or certificate.
func (g *wrongSecretThrottle) isRepeatedSecret(one secretAttempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	last, ok := g.lastShown[one]
	if !ok && len(g.lastShown) >= maxRememberedSecrets {
		maps.DeleteFunc(g.lastShown, func(_ secretAttempt, at time.Time) bool { return now.Sub(at) > wrongSecretMemory })
		if len(g.lastShown) >= maxRememberedSecrets {
			return false
		}
	}
	g.lastShown[one] = now
	return ok && now.Sub(last) <= wrongSecretMemory
}
