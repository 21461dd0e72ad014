package subject

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
)

const (
	applyAtOnce = 1000           // resources in one request
	joinAtOnce  = 16             // machines; a server lets in 32 of one network
	freshFor    = 24 * time.Hour // that a certificate must still be good for: a run may take hours
)

// Join prepares a server that runs, if it is the one that the API is of: namespace, groups, checks
// and nodes are applied, and every machine of the scenario joins with a token. Keys and certificates stay in dir, below
// a folder for each CA: the next run joins nothing. It returns the machines with the ids
// that the server gave them, and their certificates.
func (s *Subject) Join(ctx context.Context, sc *scenario.Scenario, dir string, say func(string, ...any)) ([]simulated.Member, func(uuid.UUID) (*tls.Config, error), error) {
	members := simulated.Members(sc)
	if err := s.same(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.apply(ctx, sc, members); err != nil {
		return nil, nil, err
	}
	made, err := s.token(ctx, "machines of the load run "+sc.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("make a join token: %w", err)
	}
	defer func() { _ = s.API.Enrolment.DeleteToken(context.WithoutCancel(ctx), made.ID) }() // it ends by itself, too
	token, err := pki.ParseToken(made.Token)
	if err != nil {
		return nil, nil, err
	}
	token.Addresses = []string{s.TLS}
	dir = filepath.Join(dir, fmt.Sprintf("%x", token.CA[:6]))
	say("%d machines join, or are known from %s", len(members), dir)
	identities := make([]*pki.Identity, len(members))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(joinAtOnce)
	for i, m := range members {
		all.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			identities[i], err = s.join(ctx, filepath.Join(dir, m.Name), m, token)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, nil, err
	}
	byNode := make(map[uuid.UUID]*pki.Identity, len(members))
	for i, id := range identities {
		members[i].UID = id.Node
		byNode[id.Node] = id
		s.CA = id.CAPEM
	}
	return members, s.certificates(byNode), nil
}

// same returns an error if the server of the API and the server for the agents have different CAs.
func (s *Subject) same(ctx context.Context) error {
	authority, err := s.API.Enrolment.Authority(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for its CA: %w", s.API.Server(), err)
	}
	sum, err := pki.ParseSum(authority.Hash)
	if err != nil {
		return err
	}
	ours, err := pki.ServerHasCA(ctx, s.TLS, sum)
	if err != nil {
		return fmt.Errorf("--server %s: %w", s.TLS, err)
	}
	if !ours {
		return model.Errorf(model.Invalid, "you are logged in at %s, and --server %s is another server: nothing was prepared", s.API.Server(), s.TLS).
			WithHint("muster login https://%s, or name a listener of %s", s.TLS, s.API.Server())
	}
	return nil
}

// apply declares the scenario's resources. It changes existing ones that differ.
func (s *Subject) apply(ctx context.Context, sc *scenario.Scenario, members []simulated.Member) error {
	for part := range slices.Chunk(append(simulated.Resources(sc), simulated.Nodes(sc, members)...), applyAtOnce) {
		if err := simulated.Apply(ctx, s.API, "nodes and checks for "+sc.Name, part...); err != nil {
			return fmt.Errorf("prepare the server: %w", err)
		}
	}
	return nil
}

// token creates a join token, and retries while a new namespace is not yet known to the server.
func (s *Subject) token(ctx context.Context, note string) (v1.JoinToken, error) {
	for try := 0; ; try++ {
		made, err := s.API.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Namespace: simulated.Namespace, ExpiresIn: 3600, Note: note})
		if model.ClassOf(err) != model.NotFound || try == 100 || pause.For(ctx, 100*time.Millisecond) != nil {
			return made, err
		}
	}
}

// join returns the identity of one machine: the kept one, renewed if it ends soon, or a new one.
func (s *Subject) join(ctx context.Context, dir string, m simulated.Member, token pki.Token) (*pki.Identity, error) {
	id, err := pki.LoadIdentity(dir)
	if err == nil && id.CASum == token.CA {
		if time.Until(id.Certificate.Leaf.NotAfter) > freshFor {
			return id, nil
		}
		return pki.Renew(ctx, pki.RenewConfig{Identity: id, StateDir: dir, Servers: []string{s.TLS}})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep the key of %s: %w", m.Name, err)
	}
	id, err = pki.Enrol(ctx, pki.EnrolConfig{Token: token, StateDir: dir, Request: pki.EnrolRequest{Name: m.Name, MachineID: dir}})
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", m.Name, err)
	}
	if id.Name != m.Name {
		return nil, model.Errorf(model.Conflict, "%s became %s: the node of that name is another machine's", m.Name, id.Name).
			WithHint("its key is lost: muster delete node %s %s -n %s, and remove %s", m.Name, id.Name, simulated.Namespace, dir)
	}
	return id, nil
}

// certificates returns a function that makes an agent's TLS configuration from its identity.
func (s *Subject) certificates(byNode map[uuid.UUID]*pki.Identity) func(uuid.UUID) (*tls.Config, error) {
	host, _, _ := net.SplitHostPort(s.TLS)
	return func(uid uuid.UUID) (*tls.Config, error) {
		id := byNode[uid]
		if id == nil {
			return nil, fmt.Errorf("node %s has no identity", uid)
		}
		return simulated.ClientConfig(id.CA, host, id.Certificate), nil
	}
}
