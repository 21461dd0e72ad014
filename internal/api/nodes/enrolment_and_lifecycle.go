package nodes

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/resources"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
)

// NewEnrolmentLimit returns a function that bounds how many machines enrol at the same time, for use by
// pki.Enroller. A request counts only when its body has arrived whole, so that slow senders do not block other
// machines.
func NewEnrolmentLimit(r *queue.Registry) func(context.Context) (leave func(), err error) {
	slots := queue.NewSlots(r, "enrolments")
	return func(ctx context.Context) (func(), error) {
		err := slots.Enter(ctx)
		if errors.Is(err, queue.ErrFull) {
			err = op.RequestLimitError()
		}
		return slots.Leave, err
	}
}

// HandleEnrolment registers on mux the paths by which agents enrol and renew their certificate. Neither has a caller
// yet, so attempts with wrong join tokens or certificates are throttled by network, as passwords are. A token that
// was used up or has expired counts as no attempt; a deleted one counts once, however often the machines of a network
// show it.
func HandleEnrolment(r *op.Routes, mux *http.ServeMux, enrol *pki.Enroller) {
	renewals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_certificate_renewals_total", Help: "Requests of nodes for a new certificate, by outcome.",
	}, []string{"outcome"})
	r.Metrics.Register(renewals)
	mux.Handle(pki.EnrolPath, limitEnrolment(r, "enrol", "join_token", func(w *op.StatusRecorder, q *http.Request, guessed func(string) error) {
		enrol.Serve(w, q, guessed)
		if w.Status == http.StatusTooManyRequests {
			r.CountRefusal("pending")
		}
	}))
	mux.Handle(pki.RenewPath, limitEnrolment(r, "renew", "renewal", func(w *op.StatusRecorder, q *http.Request, guessed func(string) error) {
		renewals.WithLabelValues(enrol.ServeRenewal(w, q, guessed)).Inc()
	}))
}

// limitEnrolment is middleware that limits concurrent enrolment requests, and wrong join tokens per network. A right
// token or certificate is cheap to check and never refused, whoever guesses at the same address. name begins the
// reasons of refusals in the metrics, wrongReason is the one of a wrong attempt. serve calls guessed with the name of
// a wrong secret, empty where it has none.
func limitEnrolment(r *op.Routes, name, wrongReason string, serve func(w *op.StatusRecorder, q *http.Request, guessed func(secret string) error)) http.Handler {
	wrong, concurrent := newWrongSecretThrottle(r.View().Now), op.NewQuota[netip.Prefix](maxEnrolmentsPerNetwork, 0)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		address := model.HostOf(q.RemoteAddr)
		leave, ok := concurrent.Enter(authlimit.Network(address))
		if !ok {
			r.CountRefusal(name + "_network")
			w.Header().Set("Connection", "close") // else the answer waits for the rest of the request
			op.WriteError(w, model.Errorf(model.Unavailable, "%d machines of the network of %s are joining, or renewing their certificates, now", maxEnrolmentsPerNetwork, address).WithHint("the agent retries automatically"))
			return
		}
		defer leave()
		serve(&op.StatusRecorder{ResponseWriter: w}, q, func(secret string) error {
			r.CountRefusal(wrongReason)
			if wrong.allowWrongSecret(address, secret) {
				return nil
			}
			r.CountRefusal(name + "_rate")
			return model.Errorf(model.Limited, "too many wrong join tokens or certificates from %s", address).WithHint("wait a minute, and check the token: muster node token list")
		})
	})
}

// maxEnrolmentsPerNetwork bounds the concurrent requests of one network: a fleet behind one address
// leaves places for others. A network is what authlimit.Limiter counts as one address range.
const maxEnrolmentsPerNetwork = 32

// registerJoinTokens registers the operations about the CA and join tokens.
func registerJoinTokens(at nodeOperations) {
	op.Handle(at, op.Get("authority", "/api/v1/ca", "nodes", "Get the server's CA", model.NotFound), access.NeedAnybody("server"), (*nodeRequest).getAuthority)
	op.Handle(at, op.Get("listJoinTokens", "/api/v1/jointokens", "nodes", "List join tokens"), access.NeedOn(access.Read, "jointoken"), (*nodeRequest).listJoinTokens)
	op.Handle(at, op.Post("createJoinToken", "/api/v1/jointokens", "nodes", "Create a join token; returned once", model.NotFound), access.NeedOn(access.Change, "jointoken"), (*nodeRequest).createJoinToken)
	op.Handle(at, op.Delete("deleteJoinToken", "/api/v1/jointokens/{id}", "nodes", "Delete a join token; nodes that joined with it stay"), access.NeedOn(access.Change, "jointoken"), (*nodeRequest).deleteJoinToken)
}

// getAuthority returns the certificate of the server's CA. The request needs no token.
func (s *nodeRequest) getAuthority(context.Context, *op.NoParameters) (*op.Body[v1.Authority], error) {
	if s.CA == nil {
		return nil, model.Errorf(model.NotFound, "this server has no certificate authority (CA)")
	}
	return op.Answer(s.CA()), nil
}

// listJoinTokens returns the join tokens of the namespaces that the caller may see.
func (s *nodeRequest) listJoinTokens(ctx context.Context, in *list.Labelled) (*op.Body[v1.JoinTokenList], error) {
	tokens, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	items := []v1.JoinToken{}
	for _, t := range tokens {
		if s.SeesNamespace(t.Namespace) {
			items = append(items, showJoinToken(t))
		}
	}
	if items, err = list.FilterLabelledRows(ctx, s.View, *in, items, func(t *v1.JoinToken) map[string]string { return t.Labels }); err != nil {
		return nil, err
	}
	return op.Answer(v1.JoinTokenList{Items: items}), nil
}

// showJoinToken converts a join token to the API type JoinToken, without the secret
func showJoinToken(t pki.JoinToken) v1.JoinToken {
	return v1.JoinToken{
		ID: t.ID, Namespace: t.Namespace, Groups: t.Groups, Labels: t.Labels, Lifecycle: t.Lifecycle, Replace: t.Replace, Node: t.Node, Expires: t.Expires,
		MaxUses: t.MaxUses, Uses: t.Uses, Created: t.Created, By: t.By, Note: t.Note,
	}
}

// createJoinToken creates a join token after checking its namespace, groups and labels.
func (s *nodeRequest) createJoinToken(ctx context.Context, in *struct{ Body v1.JoinTokenRequest }) (*op.Body[v1.JoinToken], error) {
	r := in.Body
	r.Namespace = cmp.Or(r.Namespace, model.DefaultNamespaceName)
	if err := s.RequireNamespace(ctx, r.Namespace); err != nil {
		return nil, err
	}
	keep := pki.JoinToken{
		Namespace: r.Namespace, Groups: r.Groups, Labels: r.Labels, Lifecycle: r.Lifecycle, Replace: r.Replace, MaxUses: r.MaxUses, Note: r.Note,
	}
	if err := s.Intent.CheckJoinGrant(ctx, keep); err != nil {
		return nil, err
	}
	return s.newJoinToken(ctx, keep, r.ExpiresIn)
}

// newJoinToken creates a join token and records the caller as its creator. The token expires after the given
// seconds, or never if seconds is 0.
func (s *nodeRequest) newJoinToken(ctx context.Context, keep pki.JoinToken, seconds int64) (*op.Body[v1.JoinToken], error) {
	if err := model.NoteError(keep.Note); err != nil {
		return nil, err
	}
	c := access.CallerOf(ctx)
	keep.By = c.Owner()
	if seconds > 0 {
		keep.Expires = s.Now().Add(time.Duration(seconds) * time.Second).UTC()
	}
	token, keep, err := s.NewJoinToken(keep)
	if err != nil {
		return nil, err
	}
	if err := s.JoinTokens.Create(ctx, access.AuthorOf(ctx, "join token created"), keep); err != nil {
		return nil, err
	}
	out := showJoinToken(keep)
	out.Token = token.String()
	return op.Answer(out), nil
}

// deleteJoinToken deletes a join token of a namespace that the caller may see.
func (s *nodeRequest) deleteJoinToken(ctx context.Context, in *op.IDPath) (*op.NoParameters, error) {
	list, err := s.JoinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	err = model.Errorf(model.NotFound, "this join token does not exist, or belongs to a namespace that you may not see")
	if !slices.ContainsFunc(list, func(t pki.JoinToken) bool { return t.ID == in.ID && !s.SeesNamespace(t.Namespace) }) {
		err = s.JoinTokens.Delete(ctx, access.AuthorOf(ctx, "join token deleted"), in.ID)
	}
	if model.ClassOf(err) == model.NotFound {
		return nil, model.Errorf(model.NotFound, "join token %s does not exist", in.ID).WithHint("list tokens: muster node token list")
	}
	return nil, err
}

// registerNodeLifecycle registers the operations that rename, replace and retire nodes.
func registerNodeLifecycle(at nodeOperations) {
	rename := op.Post("renameNode", "/api/v1/nodes/{namespace}/{name}/rename", "nodes", "Rename a node; it keeps its events and history", model.NotFound)
	op.Handle(at, op.AddChangeErrors(rename), access.NeedOn(access.Change, "Node"), (*nodeRequest).renameNode)
	replace := op.Post("replaceNode", "/api/v1/nodes/{namespace}/{name}/replace", "nodes", "Create a token that makes another machine this node; returned once", model.NotFound, model.Conflict)
	op.Handle(at, replace, access.NeedOn(access.Change, "Node"), (*nodeRequest).replaceNode)
	retire := op.Post("retireNodes", "/api/v1/retire", "nodes", "Retire nodes, in one transaction", model.NotFound)
	retire.MaxBodyBytes = 4 << 20 // 10,000 names
	op.Handle(at, op.AddChangeErrors(retire), access.NeedOn(access.Change, "Node"), (*nodeRequest).retireNodes)
	op.Handle(at, op.Get("listTombstones", "/api/v1/tombstones", "nodes", "List deleted, retired and replaced nodes with the reason, newest first"), access.NeedOn(access.Read, "tombstone"), (*nodeRequest).listTombstones)
	op.Handle(at, op.Delete("deleteTombstone", "/api/v1/tombstones/{id}", "nodes", "Delete a tombstone: its machine may ask to join again", model.NotFound), access.NeedOn(access.Change, "tombstone"), (*nodeRequest).deleteTombstone)
}

// renameNode renames a node. The node keeps its events and history.
func (s *nodeRequest) renameNode(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.NodeRename
}) (*op.Body[v1.Applied], error) {
	applied, err := s.Intent.Rename(ctx, access.AuthorOf(ctx, in.Body.Message), in.Namespace, in.Name, in.Body.To, resources.ApplyOptions(in.Body.ChangeOptions))
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name})
	}
	return op.Answer(resources.Applied(s.View, applied, in.Body.DryRun, nil)), nil
}

// replaceNode creates a join token with which another machine takes over a node.
func (s *nodeRequest) replaceNode(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.NodeReplace
}) (*op.Body[v1.JoinToken], error) {
	key := intent.Key{Kind: "Node", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	uid, err := uuid.Parse(r.Spec.(*model.NodeSpec).UID)
	if err != nil {
		return nil, model.Errorf(model.Conflict, "%s has no agent that another machine could replace", key).WithHint("join a machine under that name: muster node token, and on the machine muster-agent join TOKEN --name %s; for a node of a trusted group: muster node accept KEY --name %s", in.Name, in.Name)
	}
	return s.newJoinToken(ctx, pki.JoinToken{Namespace: in.Namespace, Node: uid, MaxUses: 1, Note: in.Body.Message}, in.Body.ExpiresIn)
}

// retireNodes retires the named nodes in one transaction.
func (s *nodeRequest) retireNodes(ctx context.Context, in *struct{ Body v1.NodeRetire }) (*op.Body[v1.Applied], error) {
	var keys []intent.Key
	seen := map[intent.Key]bool{}
	for _, ref := range in.Body.Nodes {
		key := intent.Key{Kind: "Node", Namespace: cmp.Or(ref.Namespace, model.DefaultNamespaceName), Name: ref.Name}
		if seen[key] {
			return nil, model.Errorf(model.Invalid, "the list of nodes contains %s twice", key)
		}
		seen[key] = true
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return nil, s.ExplainNotFound(ctx, err, key)
		}
		keys = append(keys, key)
	}
	applied, err := s.Intent.Retire(ctx, access.AuthorOf(ctx, in.Body.Message), keys, resources.ApplyOptions(in.Body.ChangeOptions))
	return op.Answer(resources.Applied(s.View, applied, in.Body.DryRun, nil)), err
}

// listTombstones returns the tombstones (records) of refused, retired and replaced machines
func (s *nodeRequest) listTombstones(ctx context.Context, in *struct {
	list.Where
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100"`
}) (*op.Body[v1.TombstoneList], error) {
	items := []v1.Tombstone{}
	for _, g := range s.Intent.ListTombstones() {
		items = append(items, v1.Tombstone{
			ID: g.ID, Name: g.Name, Namespace: g.Namespace, Cause: g.Cause, Reason: g.Reason, By: g.By, At: g.At, Until: g.Until,
		})
	}
	items, err := list.FilterRows(ctx, s.View, in.Where, items)
	return op.Answer(v1.TombstoneList{Items: items[:min(in.Limit, len(items))], All: len(items)}), err
}

// deleteTombstone deletes the record of a refused or retired machine, so that the machine may join again.
func (s *nodeRequest) deleteTombstone(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"128"`
}) (*op.NoParameters, error) {
	return nil, s.Intent.DeleteTombstone(ctx, access.AuthorOf(ctx, ""), in.ID)
}
