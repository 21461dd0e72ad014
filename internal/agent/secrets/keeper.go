// Package secrets finds, on the node, the values of secrets that a check needs for a run: in the
// agent's environment, in its folder of secrets, or by asking the server. What the server gave is kept
// in memory for its lease and nowhere else; what is on the node is read for each run.
//
// A Keeper owns no goroutine, but a timer for each value that it keeps; it has one lock, held for no
// file and no network. The link fetches what is to be asked (Ready, Next) and hands over what came
// (Connected, Disconnected, Reply). Start at Keeper.Find.
package secrets

import (
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
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	// DefaultDir is where agents look for files.
	DefaultDir = "/etc/muster/secrets"
	// patience is how long the server may take to answer, and how long a session may be away until
	// who needs it is told so.
	patience = 15 * time.Second
)

// Options of a Keeper.
type Options struct {
	Dir    string                      // of secrets in files; default DefaultDir
	Getenv func(string) (string, bool) // default os.LookupEnv
}

// Keeper finds values. Many goroutines may use it.
type Keeper struct {
	o     Options
	ready chan struct{}

	mu      sync.Mutex
	kept    map[string]*kept // by name
	asks    map[uint64]*ask
	unsent  []*ask
	session bool      // there is one
	serves  bool      // … and that server answers
	since   time.Time // when the last session ended, or the agent began; zero before the first look
}

// kept is a value for the time of its lease.
type kept struct {
	value string
	timer *time.Timer
}

// ask is what one run needs of the server.
type ask struct {
	id    uint64
	names []string
	done  chan struct{}
	given []wire.SecretValue
	err   error
}

// New makes a Keeper for an agent that begins now.
func New(o Options) *Keeper {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	return &Keeper{o: o, ready: make(chan struct{}, 1), kept: map[string]*kept{}, asks: map[uint64]*ask{}, since: time.Now()}
}

// Find returns the values of secrets, by the variable that each is for. The error names the first
// that cannot be had, and holds nothing of any value.
func (k *Keeper) Find(ctx context.Context, list []model.ChunkSecret) (map[string]string, error) {
	values := make(map[string]string, len(list))
	var served []model.ChunkSecret
	for i := range list {
		if s := &list[i]; s.OnServer() {
			served = append(served, *s)
		} else if value, err := k.own(s); err != nil {
			return nil, fmt.Errorf("secret %s cannot be had: %w", s.Name, err)
		} else {
			values[s.Env] = value
		}
	}
	if len(served) == 0 {
		return values, nil
	}
	found, err := k.served(ctx, served)
	if err != nil {
		return nil, err
	}
	for i := range served {
		values[served[i].Env] = found[served[i].Name]
	}
	return values, nil
}

// own reads what is on the node.
func (k *Keeper) own(s *model.ChunkSecret) (value string, err error) {
	if s.AgentEnv != "" {
		name := model.SecretVariable + s.AgentEnv
		var ok bool
		if value, ok = k.o.Getenv(name); !ok {
			return "", fmt.Errorf("the agent's environment has no %s: set it where the service is declared and restart the agent", name)
		}
	} else if value, err = k.file(s.AgentFile); err != nil {
		return "", err
	}
	return value, model.CheckSecretValue(value)
}

// file reads one within the folder: no link leads out of it.
func (k *Keeper) file(name string) (string, error) {
	root, err := os.OpenRoot(k.o.Dir)
	if err != nil {
		return "", fmt.Errorf("the agent's folder of secrets (--secrets-dir): %w", err)
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", fmt.Errorf("in the agent's folder of secrets, %s: %w", k.o.Dir, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s in %s is no file", name, k.o.Dir)
	}
	data, err := io.ReadAll(io.LimitReader(f, model.MaxSecret+3)) // and a line break; longer is refused
	if err != nil {
		return "", fmt.Errorf("read %s in %s: %w", name, k.o.Dir, err)
	}
	return model.SecretOfFile(data), nil
}

// served returns what the server knows, by name: what is kept, and what it answers now.
func (k *Keeper) served(ctx context.Context, list []model.ChunkSecret) (map[string]string, error) {
	found := make(map[string]string, len(list))
	var missing []string
	k.mu.Lock()
	for i := range list {
		name := list[i].Name
		if had := k.kept[name]; had != nil {
			found[name] = had.value
		} else if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		k.mu.Unlock()
		return found, nil
	}
	why := k.hopelessLocked()
	if why != nil {
		k.mu.Unlock()
		return nil, fmt.Errorf("secret %s cannot be had: %w", missing[0], why)
	}
	a := &ask{id: rand.Uint64() | 1, names: missing, done: make(chan struct{})}
	k.asks[a.id] = a
	k.unsent = append(k.unsent, a)
	if k.session {
		k.tellLocked()
	}
	k.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		k.give(a, errors.New("the server did not answer"))
	case <-ctx.Done():
		k.give(a, errors.New("the agent stops"))
	}
	if a.err != nil {
		return nil, fmt.Errorf("secret %s cannot be had: %w", missing[0], a.err)
	}
	for _, name := range missing {
		i := slices.IndexFunc(a.given, func(g wire.SecretValue) bool { return g.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("secret %s cannot be had: the server's answer leaves it out", name)
		}
		g := &a.given[i]
		err := error(nil)
		if g.Error != "" {
			err = errors.New(g.Error)
		} else {
			err = model.CheckSecretValue(string(g.Value))
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s cannot be had: %w", name, err)
		}
		found[name] = string(g.Value)
	}
	return found, nil
}

var (
	errAway = errors.New("the server knows it, and there is no session with one")
	errOld  = errors.New("the server knows none: it is of a version before secrets, update it")
)

// hopelessLocked says why nobody needs to wait for a server.
func (k *Keeper) hopelessLocked() error {
	switch {
	case k.session && !k.serves:
		return errOld
	case !k.session && time.Since(k.since) > patience:
		return errAway
	}
	return nil
}

// give ends an ask that was not answered.
func (k *Keeper) give(a *ask, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endLocked(a, nil, err)
	if a.err != nil && !k.session {
		a.err = errAway
	}
}

// endLocked does nothing where it has ended.
func (k *Keeper) endLocked(a *ask, given []wire.SecretValue, err error) {
	if k.asks[a.id] != a {
		return
	}
	delete(k.asks, a.id)
	k.unsent = slices.DeleteFunc(k.unsent, func(b *ask) bool { return a == b })
	a.given, a.err = given, err
	close(a.done)
}

func (k *Keeper) tellLocked() {
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// Ready has a value after there is something to ask.
func (k *Keeper) Ready() <-chan struct{} { return k.ready }

// Next is what is to be asked of the server now; false: nothing.
func (k *Keeper) Next() (wire.Exchange, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.session || len(k.unsent) == 0 {
		return wire.Exchange{}, false
	}
	a := k.unsent[0]
	k.unsent = k.unsent[1:]
	return wire.Exchange{ID: a.id, SecretsRequest: &wire.SecretsRequest{Names: a.names}}, true
}

// Connected begins a session: what was asked in none is asked now.
func (k *Keeper) Connected(features uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session, k.serves = true, features&wire.FeatureSecrets != 0
	if !k.serves {
		for _, a := range k.asks {
			k.endLocked(a, nil, errOld)
		}
	} else if len(k.unsent) > 0 {
		k.tellLocked()
	}
}

// Disconnected ends it: what was not answered is asked again in the next.
func (k *Keeper) Disconnected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.session {
		k.session, k.since = false, time.Now()
	}
	k.unsent = k.unsent[:0]
	for _, a := range k.asks {
		k.unsent = append(k.unsent, a)
	}
}

// Reply takes the server's answer; x is valid during the call.
func (k *Keeper) Reply(x *wire.Exchange) {
	if x.SecretsReply == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.asks[x.ID]
	if a == nil {
		return // too late
	}
	given := slices.Clone(x.SecretsReply.Values)
	for i := range given {
		g := &given[i]
		g.Value = slices.Clone(g.Value)
		if g.Error == "" && g.LeaseMs > 0 && slices.Contains(a.names, g.Name) && model.CheckSecretValue(string(g.Value)) == nil {
			k.keepLocked(g.Name, string(g.Value), time.Duration(g.LeaseMs)*time.Millisecond)
		}
	}
	k.endLocked(a, given, nil)
}

func (k *Keeper) keepLocked(name, value string, lease time.Duration) {
	if had := k.kept[name]; had != nil {
		had.timer.Stop()
	}
	now := &kept{value: value}
	now.timer = time.AfterFunc(lease, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.kept[name] == now {
			delete(k.kept, name)
		}
	})
	k.kept[name] = now
}

// Retain forgets what the assignment in force does not name any more.
func (k *Keeper) Retain(chunks []*model.CheckChunk) {
	named := map[string]bool{}
	for _, c := range chunks {
		for i := range c.Secrets {
			if s := &c.Secrets[i]; s.OnServer() {
				named[s.Name] = true
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, had := range k.kept {
		if !named[name] {
			had.timer.Stop()
			delete(k.kept, name)
		}
	}
}

// Close forgets all.
func (k *Keeper) Close() { k.Retain(nil) }
