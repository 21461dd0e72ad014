package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	neturl "net/url"
	"slices"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/asset"
)

const (
	lookForAssets = 2 * time.Second
	fetchesAtOnce = 4
	fetchWithin   = 15 * time.Minute
	fetchAgain    = 10 * time.Second // after the first failure; doubled by each …
	fetchLongest  = time.Hour        // … up to this
	collectAssets = 10 * time.Minute
)

// archives are those that Assets name, and how far the server came with those that it
// fetches itself.
type archives struct {
	store   *asset.Store
	http    *http.Client
	arrived func() // hears that there is one more

	mu       sync.Mutex
	named    map[asset.Sum][]string // by an Asset: the addresses, if any
	fetching map[asset.Sum]bool
	failed   map[asset.Sum]failure
}

// failure is why an archive could not be fetched.
type failure struct {
	text  string
	wait  time.Duration
	again time.Time
}

func (s *Server) openArchives(context.Context) error {
	store, err := asset.Open(asset.Options{Dir: s.path("assets"), Now: s.now})
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // the sum is of what is sent
	transport.ResponseHeaderTimeout = 30 * time.Second
	s.archives = &archives{
		store: store, http: &http.Client{Transport: transport}, arrived: s.tools.Arrived, fetching: map[asset.Sum]bool{}, failed: map[asset.Sum]failure{},
	}
	return nil
}

// runArchives fetches what Assets have an address for, and removes what none names any more.
func (s *Server) runArchives(ctx context.Context) error {
	a := s.archives
	var under sync.WaitGroup
	defer under.Wait()
	tick := time.NewTicker(lookForAssets)
	defer tick.Stop()
	var seen int64
	var collected time.Time
	for {
		if now := s.planner.Revision(); now != seen || a.named == nil {
			if err := s.nameArchives(ctx); err != nil {
				s.log.Warn("assets could not be read; trying again", "err", err)
			} else {
				seen = now
			}
			s.tools.Named(s.planner.HandlerAssets())
		}
		for _, sum := range a.due(s.now()) {
			under.Go(func() { s.fetchArchive(ctx, sum) })
		}
		if s.now().Sub(collected) > collectAssets && a.named != nil {
			collected = s.now()
			if removed, err := a.store.Collect(a.isNamed); err != nil {
				s.log.Warn("archives that no asset names could not be removed", "err", err)
			} else if removed > 0 {
				s.log.Info("archives that no asset names any more are removed", "count", removed)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// nameArchives reads what Assets there are.
func (s *Server) nameArchives(ctx context.Context) error {
	all, err := s.intent.List(ctx, intent.ListQuery{Kind: "Asset"}, nil)
	if err != nil {
		return err
	}
	named := map[asset.Sum][]string{}
	for i := range all {
		for _, b := range all[i].Spec.(*model.AssetSpec).Builds {
			sum, err := model.ParseAssetSum(b.SHA512)
			if err != nil {
				continue // nobody could apply it
			}
			urls := named[sum]
			if b.URL != "" && !slices.Contains(urls, b.URL) {
				urls = append(urls, b.URL)
			}
			named[sum] = urls
		}
	}
	a := s.archives
	a.mu.Lock()
	defer a.mu.Unlock()
	for sum, urls := range named { // another address is tried at once
		if !slices.Equal(urls, a.named[sum]) {
			delete(a.failed, sum)
		}
	}
	a.named = named
	return nil
}

func (a *archives) isNamed(sum asset.Sum) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.named[sum]
	return ok
}

// due takes archives to be fetched now.
func (a *archives) due(now time.Time) (list []asset.Sum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for sum, urls := range a.named {
		if _, here := a.store.Size(sum); here || len(urls) == 0 || a.fetching[sum] || now.Before(a.failed[sum].again) || len(a.fetching) >= fetchesAtOnce {
			continue
		}
		a.fetching[sum] = true
		list = append(list, sum)
	}
	return list
}

func (s *Server) fetchArchive(ctx context.Context, sum asset.Sum) {
	a := s.archives
	a.mu.Lock()
	urls := a.named[sum]
	a.mu.Unlock()
	var err error
	for _, url := range urls {
		if err = a.fetch(ctx, sum, url); err == nil {
			s.log.Info("archive of an asset fetched", "url", model.ShownPlace(url), "sha512", asset.Short(sum))
			a.arrived()
			break
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fetching, sum)
	if err == nil || ctx.Err() != nil {
		delete(a.failed, sum)
		return
	}
	wait := min(max(fetchAgain, 2*a.failed[sum].wait), fetchLongest)
	a.failed[sum] = failure{model.OneLine(err), wait, s.now().Add(wait/2 + rand.N(wait))}
	s.log.Warn("archive of an asset could not be fetched; trying again", "sha512", asset.Short(sum), "in", wait, "err", err)
}

func (a *archives) fetch(ctx context.Context, sum asset.Sum, url string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	shown := model.ShownPlace(url)
	if err != nil {
		return fmt.Errorf("GET %s: this is no address", shown)
	}
	answer, err := a.http.Do(request)
	if failed := (*neturl.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("GET %s: %w", shown, failed.Err) // without the address that it has, or was sent on to
	} else if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", shown, answer.Status)
	}
	if _, err := a.store.Put(sum, answer.Body); err != nil {
		return fmt.Errorf("GET %s: %w", shown, err)
	}
	return nil
}

// open is muster.Config.Assets: an archive, or why it is not here.
func (a *archives) open(sum asset.Sum) (io.ReadSeekCloser, error) {
	state := a.State(sum)
	switch {
	case state.Stored:
		return a.store.Open(sum)
	case state.Trouble != "":
		return nil, model.Errorf(model.NotFound, "the server does not have the archive: %s", state.Trouble)
	case state.Fetching:
		return nil, model.Errorf(model.Unavailable, "the server fetches the archive itself just now")
	}
	return nil, model.Errorf(model.NotFound, "the server does not have the archive %s: nobody has uploaded it", asset.Short(sum)).WithHint("muster asset add NAME FILE")
}

// Put implements api.Archives.
func (a *archives) Put(sum asset.Sum, r io.Reader) (int64, error) {
	size, err := a.store.Put(sum, r)
	if err == nil {
		a.arrived()
	}
	return size, err
}

// openWhole is tools.Options.Archive: as open, of an archive that was held to its sum.
func (a *archives) openWhole(sum asset.Sum) (io.ReadSeekCloser, error) {
	if _, here := a.store.Size(sum); here {
		if err := a.store.Check(sum); err != nil {
			return nil, err
		}
	}
	return a.open(sum)
}

// State implements api.Archives.
func (a *archives) State(sum asset.Sum) v1.Archive {
	out := v1.Archive{SHA512: hex.EncodeToString(sum[:])}
	out.Bytes, out.Stored = a.store.Size(sum)
	a.mu.Lock()
	defer a.mu.Unlock()
	urls, named := a.named[sum]
	if out.Named = named; out.Stored {
		return out
	}
	out.Trouble = a.failed[sum].text
	if err := a.store.Damaged(sum); err != nil && out.Trouble == "" && len(urls) == 0 {
		out.Trouble = model.OneLine(err)
	}
	out.Fetching = a.fetching[sum] || len(urls) > 0 && out.Trouble == ""
	return out
}
