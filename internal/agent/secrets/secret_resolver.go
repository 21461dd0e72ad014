// Package secrets finds the values of secrets for one run of a check or directive: in the agent's environment, in its
// folder of secrets, or on the server. A value of the server is kept in memory for its lease, and nowhere
// else; values on the node are read for each run.
//
// A Keeper owns a timer for each value that it keeps, and no goroutine. Its lock is not held during file
// and network operations. The link sends its requests (Ready, Next) and delivers answers and the state of
// the session (Reply, Connected, Disconnected). Start at Keeper.Find.
package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	// DefaultDir is the default folder of secrets.
	DefaultDir = "/etc/muster/secrets"
	// answerTimeout bounds the wait for the server's answer, and the time without a session after which
	// requests fail at once.
	answerTimeout = 15 * time.Second
)

// Options has the settings of a Resolver, the finder of secrets for checks.
type Options struct {
	Dir    string                      // of secrets in files; default DefaultDir
	Getenv func(string) (string, bool) // default os.LookupEnv
}

// Resolver finds the secrets that checks need, on the machine or on the server. On the machine they are in the
// environment or in files. The server lends each secret for a limited time (lease). Many goroutines may use one
// Keeper.
type Resolver struct {
	o     Options
	ready chan struct{}

	mu             sync.Mutex
	leasedValues   map[string]*leasedValue   // by name of the secret
	requests       map[uint64]*secretRequest // without an answer
	hasSession     bool                      // connected
	serverAnswers  bool                      // the server of the session answers requests for secrets
	noSessionSince time.Time                 // end of the last session, or start of the agent
}

// leasedValue is the cached value of a secret until its lease (time limit) ends.
type leasedValue struct {
	value string
	timer *time.Timer
}

// secretRequest is a request to the server for the secrets that one run of a check needs.
type secretRequest struct {
	id     uint64
	sent   bool // in this session
	names  []string
	done   chan struct{}
	values []wire.SecretValue
	err    error
}

// New returns a Resolver (finder of secrets for checks) whose cache is empty.
func New(o Options) *Resolver {
	o.Dir = cmp.Or(o.Dir, DefaultDir)
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	return &Resolver{o: o, ready: make(chan struct{}, 1), leasedValues: map[string]*leasedValue{}, requests: map[uint64]*secretRequest{}, noSessionSince: time.Now()}
}

// Find returns the values of the secrets that a check or policy directive needs. The map's keys are environment
// variables or parameters. The error names the first missing secret and has no part of any value.
func (k *Resolver) Find(ctx context.Context, list []model.DefinitionSecret) (map[string]string, error) {
	values := make(map[string]string, len(list))
	var served []model.DefinitionSecret
	for i := range list {
		if s := &list[i]; s.OnServer() {
			served = append(served, *s)
		} else if value, err := k.readLocal(s); err != nil {
			return nil, fmt.Errorf("secret %s is not available: %w", s.Name, err)
		} else {
			values[s.Env] = value
		}
	}
	if len(served) == 0 {
		return values, nil
	}
	found, err := k.requestFromServer(ctx, served)
	if err != nil {
		return nil, err
	}
	for i := range served {
		values[served[i].Env] = found[served[i].Name]
	}
	return values, nil
}

// readLocal reads a secret from the agent's environment, or from a file in its folder of secrets.
func (k *Resolver) readLocal(s *model.DefinitionSecret) (value string, err error) {
	if s.AgentEnv != "" {
		name := model.SecretVariable + s.AgentEnv
		var ok bool
		if value, ok = k.o.Getenv(name); !ok {
			return "", fmt.Errorf("the agent's environment has no variable %s: set it in the agent's service unit and restart the agent", name)
		}
	} else if value, err = k.readFile(s.AgentFile); err != nil {
		return "", err
	}
	return value, model.CheckSecretValue(value)
}

// readFile reads a secret from a file in the folder of secrets. Symbolic links to files outside the folder are
// refused.
func (k *Resolver) readFile(name string) (string, error) {
	root, err := os.OpenRoot(k.o.Dir)
	if err != nil {
		return "", fmt.Errorf("open the agent's folder of secrets (--secrets-dir): %w", err)
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", fmt.Errorf("open a secret in the agent's folder of secrets %s: %w", k.o.Dir, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("secret file %s in folder %s is not a regular file", name, k.o.Dir)
	}
	data, err := io.ReadAll(io.LimitReader(f, model.MaxSecret+3)) // with a line break; a longer value is refused
	if err != nil {
		return "", fmt.Errorf("read secret file %s in folder %s: %w", name, k.o.Dir, err)
	}
	return model.SecretOfFile(data), nil
}

// requestFromServer returns the values of secrets from the cache, or requests the missing values from the server.
func (k *Resolver) requestFromServer(ctx context.Context, list []model.DefinitionSecret) (map[string]string, error) {
	found := make(map[string]string, len(list))
	var missing []string
	k.mu.Lock()
	for i := range list {
		name := list[i].Name
		if had := k.leasedValues[name]; had != nil {
			found[name] = had.value
		} else if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	reason := k.checkServerLocked()
	switch {
	case len(missing) == 0:
		k.mu.Unlock()
		return found, nil
	case reason != nil:
		k.mu.Unlock()
		return nil, fmt.Errorf("secret %s is not available: %w", missing[0], reason)
	}
	a := &secretRequest{id: rand.Uint64() | 1, names: missing, done: make(chan struct{})}
	k.requests[a.id] = a
	k.mu.Unlock()
	pause.Wake(k.ready)
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		k.failRequest(a, errNoAnswer)
	case <-ctx.Done():
		reason := errors.New("the agent stops")
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = errNoAnswer
		}
		k.failRequest(a, reason)
	}
	if a.err != nil {
		return nil, fmt.Errorf("secret %s is not available: %w", missing[0], a.err)
	}
	for _, name := range missing {
		i := slices.IndexFunc(a.values, func(g wire.SecretValue) bool { return g.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("secret %s is not available: the server's answer does not contain its value", name)
		}
		g := &a.values[i]
		err := model.CheckSecretValue(string(g.Value))
		if g.Error != "" {
			err = errors.New(g.Error)
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s is not available: %w", name, err)
		}
		found[name] = string(g.Value)
	}
	return found, nil
}

var (
	errNoAnswer  = errors.New("the server did not answer")
	errNoSession = errors.New("the value is on the server, and the agent has no session")
	errOldServer = errors.New("the server does not support secrets: update the server")
)

// checkServerLocked returns an error if the server cannot deliver secrets now, for example because no session
// is open.
func (k *Resolver) checkServerLocked() error {
	switch {
	case k.hasSession && !k.serverAnswers:
		return errOldServer
	case !k.hasSession && time.Since(k.noSessionSince) > answerTimeout:
		return errNoSession
	}
	return nil
}

// failRequest completes a request with an error.
func (k *Resolver) failRequest(a *secretRequest, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endRequestLocked(a, nil, err)
	if a.err != nil && !k.hasSession {
		a.err = errNoSession
	}
}

// endRequestLocked completes a request with the secrets or an error, and ignores any second completion.
func (k *Resolver) endRequestLocked(a *secretRequest, values []wire.SecretValue, err error) {
	if k.requests[a.id] != a {
		return
	}
	delete(k.requests, a.id)
	a.values, a.err = values, err
	close(a.done)
}

// Ready returns the channel that receives a value when a request for secrets is waiting to be sent
func (k *Resolver) Ready() <-chan struct{} { return k.ready }

// Next returns the next request for secrets, for the agent's session to send.
func (k *Resolver) Next(int) (wire.Exchange, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.requests {
		if k.hasSession && !a.sent {
			a.sent = true
			return wire.Exchange{ID: a.id, SecretsRequest: &wire.SecretsRequest{Names: a.names}}, true
		}
	}
	return wire.Exchange{}, false
}

// Connected records the start of a session, and whether its server can deliver secrets. Waiting requests are then
// sent.
func (k *Resolver) Connected(serverAnswers bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hasSession, k.serverAnswers = true, serverAnswers
	for _, a := range k.requests {
		if !k.serverAnswers {
			k.endRequestLocked(a, nil, errOldServer)
		}
	}
	pause.Wake(k.ready)
}

// Disconnected records the end of the session with the server, and the next session repeats unanswered
// requests. Unanswered requests are sent again in the next session.
func (k *Resolver) Disconnected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hasSession {
		k.hasSession, k.noSessionSince = false, time.Now()
	}
	for _, a := range k.requests {
		a.sent = false
	}
}

// Reply gives the server's secrets to the waiting caller.
func (k *Resolver) Reply(x *wire.Exchange) {
	if x.SecretsReply == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.requests[x.ID]
	if a == nil {
		return // no run waits for this reply any more
	}
	values := slices.Clone(x.SecretsReply.Values)
	for i := range values {
		g := &values[i]
		g.Value = slices.Clone(g.Value)
		if g.Error == "" && g.LeaseMs > 0 && slices.Contains(a.names, g.Name) && model.CheckSecretValue(string(g.Value)) == nil {
			k.cacheValueLocked(g.Name, string(g.Value), time.Duration(g.LeaseMs)*time.Millisecond)
		}
	}
	k.endRequestLocked(a, values, nil)
}

// cacheValueLocked caches the value of a secret until its lease ends. The caller must hold the lock.
func (k *Resolver) cacheValueLocked(name, value string, lease time.Duration) {
	if had := k.leasedValues[name]; had != nil {
		had.timer.Stop()
	}
	now := &leasedValue{value: value}
	now.timer = time.AfterFunc(lease, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.leasedValues[name] == now {
			delete(k.leasedValues, name)
		}
	})
	k.leasedValues[name] = now
}

// RemoveUnused removes the cached secrets that no check or directive of the current assignment uses.
func (k *Resolver) RemoveUnused(definitions []*model.Definition) {
	named := map[string]bool{}
	for _, c := range definitions {
		for _, s := range c.Secrets() {
			if s.OnServer() {
				named[s.Name] = true
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, had := range k.leasedValues {
		if !named[name] {
			had.timer.Stop()
			delete(k.leasedValues, name)
		}
	}
}

// Close removes all values of secrets from memory.
func (k *Resolver) Close() { k.RemoveUnused(nil) }
