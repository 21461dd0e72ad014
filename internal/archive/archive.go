package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/outbound"
	"github.com/muster-fleet/muster/internal/store/asset"
)

const (
	lookInterval   = 2 * time.Second // between looks at the revision and at due fetches
	maxFetches     = 4               // at a time
	fetchTimeout   = 15 * time.Minute
	retryFirst     = 10 * time.Second // after a failure; doubled by each further one …
	retryLongest   = time.Hour        // … up to this
	collectPeriod  = 10 * time.Minute
	responseHeader = 30 * time.Second // from request to the header of the response
)

// Options has the settings of an Archive. They are the folder of the archives, and functions that read the declared
// Assets and report errors.
type Options struct {
	Dir      string // folder of the store
	Assets   func(ctx context.Context) ([]model.Resource, error)
	Revision func() int64     // of the intent: Assets is called when it changes
	Outbound *outbound.Policy // bounds the addresses to fetch from; nil: none
	Changed  func()           // called after each look at the intent
	Ready    func()           // called when the store has one more archive
	Now      func() time.Time
	Log      *slog.Logger
}

// Archive stores on the server's disk the archive files of Assets (programs for checks and handlers). Assets
// are programs for checks and handlers. Archive downloads missing archives. It fetches those with an address,
// and removes those that no Asset names any more. Safe for concurrent use.
type Archive struct {
	o     Options
	store *asset.Store
	http  *http.Client

	mu               sync.Mutex             // held for moments: no input or output happens under the lock
	addressesOfNamed map[asset.Sum][]string // addresses, in the order of the Assets; nil: not read yet
	fetching         map[asset.Sum]bool
	failed           map[asset.Sum]fetchFailure
}

// fetchFailure has the error of an archive's last download, and the time of the next attempt.
type fetchFailure struct {
	text  string
	wait  time.Duration
	retry time.Time
}

// Open opens the store in a folder for the archives of Assets. Call Run to fetch.
func Open(o Options) (*Archive, error) {
	store, err := asset.Open(asset.Options{Dir: o.Dir, Now: o.Now})
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // the sum covers the bytes on the wire
	transport.ResponseHeaderTimeout = responseHeader
	transport.DialContext = o.Outbound.Dialer().DialContext
	return &Archive{o: o, store: store, http: &http.Client{Transport: transport, CheckRedirect: o.Outbound.CheckRedirect}, fetching: map[asset.Sum]bool{}, failed: map[asset.Sum]fetchFailure{}}, nil
}

// Run downloads the missing archives of Assets and deletes unused archives, until ctx ends.
func (a *Archive) Run(ctx context.Context) error {
	var fetches sync.WaitGroup
	defer fetches.Wait()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var read int64 // revision
	var collected time.Time
	for {
		if now := a.o.Revision(); now != read || a.addressesOfNamed == nil {
			if err := a.readAssets(ctx); err != nil {
				a.o.Log.Warn("cannot read assets; trying again", "err", err)
			} else {
				read = now
			}
			a.o.Changed()
		}
		for _, sum := range a.claimDueFetches(a.o.Now()) {
			fetches.Go(func() { a.fetchFromAnyAddress(ctx, sum) })
		}
		if a.o.Now().Sub(collected) > collectPeriod && a.addressesOfNamed != nil {
			collected = a.o.Now()
			if removed, err := a.store.RemoveUnused(a.isReferenced); err != nil {
				a.o.Log.Warn("cannot remove unused archives of assets", "err", err)
			} else if removed > 0 {
				a.o.Log.Info("removed unused archives of assets", "count", removed)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readAssets reads the declared Assets, and returns their archives with the download addresses.
func (a *Archive) readAssets(ctx context.Context) error {
	all, err := a.o.Assets(ctx)
	if err != nil {
		return err
	}
	named := map[asset.Sum][]string{}
	for i := range all {
		for _, b := range all[i].Spec.(*model.AssetSpec).Builds {
			sum, err := model.ParseAssetSum(b.SHA512)
			if err != nil {
				continue // validation refuses it
			}
			urls := named[sum]
			if b.URL != "" && !slices.Contains(urls, b.URL) {
				urls = append(urls, b.URL)
			}
			named[sum] = urls
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for sum, urls := range named { // another address is tried at once
		if !slices.Equal(urls, a.addressesOfNamed[sum]) {
			delete(a.failed, sum)
		}
	}
	a.addressesOfNamed = named
	return nil
}

// isReferenced reports whether any Asset refers to the archive with the given SHA-512.
func (a *Archive) isReferenced(sum asset.Sum) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.addressesOfNamed[sum]
	return ok
}

// claimDueFetches returns the archives to download now, and marks each so that no other goroutine downloads the
// same.
func (a *Archive) claimDueFetches(now time.Time) (list []asset.Sum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for sum, urls := range a.addressesOfNamed {
		if _, here := a.store.Size(sum); here || len(urls) == 0 || a.fetching[sum] || now.Before(a.failed[sum].retry) || len(a.fetching) >= maxFetches {
			continue
		}
		a.fetching[sum] = true
		list = append(list, sum)
	}
	return list
}

// fetchFromAnyAddress downloads an archive from the first of its addresses that works.
func (a *Archive) fetchFromAnyAddress(ctx context.Context, sum asset.Sum) {
	a.mu.Lock()
	urls := a.addressesOfNamed[sum]
	a.mu.Unlock()
	var err error
	for _, url := range urls {
		if err = a.fetchFromAddress(ctx, sum, url); err == nil {
			a.o.Log.Info("downloaded an asset's archive", "url", model.RedactQuery(url), "sha512", asset.ShortSum(sum))
			a.o.Ready()
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
	wait := min(max(retryFirst, 2*a.failed[sum].wait), retryLongest)
	a.failed[sum] = fetchFailure{model.OneLine(err), wait, a.o.Now().Add(wait/2 + rand.N(wait))}
	a.o.Log.Warn("cannot download an asset's archive; trying again", "sha512", asset.ShortSum(sum), "in", wait, "err", err)
}

// fetchFromAddress downloads an archive from one URL and stores the archive on the server.
func (a *Archive) fetchFromAddress(ctx context.Context, sum asset.Sum, url string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	shown := model.RedactQuery(url)
	if err != nil {
		return fmt.Errorf("download of an archive failed: GET %s: the URL is not valid", shown)
	}
	answer, err := a.http.Do(request)
	if failed := (*neturl.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("download of an archive failed: GET %s: %w", shown, failed.Err) // its text has the address, with any password
	} else if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("download of an archive failed: GET %s: %s", shown, answer.Status)
	}
	if _, err := a.store.Put(sum, answer.Body); err != nil {
		return fmt.Errorf("download of an archive failed: GET %s: %w", shown, err)
	}
	return nil
}

// Open opens the stored archive of an Asset for reading. If the archive is missing, the error says why. Open serves as
// muster.Config.Assets.
func (a *Archive) Open(sum asset.Sum) (io.ReadSeekCloser, error) {
	state := a.State(sum)
	switch {
	case state.Stored:
		return a.store.Open(sum)
	case state.Trouble != "":
		return nil, model.Errorf(model.NotFound, "the server does not have the archive: %s", state.Trouble)
	case state.Fetching:
		return nil, model.Errorf(model.Unavailable, "the server is downloading the archive")
	}
	return nil, model.Errorf(model.NotFound, "the server does not have the archive %s: upload it", asset.ShortSum(sum)).WithHint("muster asset add NAME FILE")
}

// Put stores an uploaded archive of an Asset if its content has the expected SHA-512.
func (a *Archive) Put(sum asset.Sum, r io.Reader) (int64, error) {
	size, err := a.store.Put(sum, r)
	if err == nil {
		a.o.Ready()
	}
	return size, err
}

// OpenChecked opens a stored archive for reading, after a check that its content has the right SHA-512.
// OpenChecked serves as tools.Options.Archive.
func (a *Archive) OpenChecked(sum asset.Sum) (io.ReadSeekCloser, error) {
	if _, here := a.store.Size(sum); here {
		if err := a.store.Check(sum); err != nil {
			return nil, err
		}
	}
	return a.Open(sum)
}

// State returns whether the server has a certain archive, the archive's size, and its last download error.
func (a *Archive) State(sum asset.Sum) v1.Archive {
	out := v1.Archive{SHA512: hex.EncodeToString(sum[:])}
	out.Bytes, out.Stored = a.store.Size(sum)
	a.mu.Lock()
	defer a.mu.Unlock()
	urls, named := a.addressesOfNamed[sum]
	if out.InAsset = named; out.Stored {
		return out
	}
	out.Trouble = a.failed[sum].text
	if err := a.store.Damaged(sum); err != nil && out.Trouble == "" && len(urls) == 0 {
		out.Trouble = model.OneLine(err)
	}
	out.Fetching = a.fetching[sum] || len(urls) > 0 && out.Trouble == ""
	return out
}

// ServeHTTP answers muster doctor with the missing and damaged archives of Assets.
func (a *Archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), doctor.LookAtAssets)
	defer cancel()
	report, err := a.examineArchives(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // an error means that the client went away
}

// examineArchives compares each stored archive with its SHA-512, until all are compared or the context ends.
// The field Unread counts the archives that are not verified yet.
func (a *Archive) examineArchives(ctx context.Context) (out doctor.Assets, err error) {
	all, err := a.o.Assets(context.WithoutCancel(ctx))
	if err != nil {
		return out, err
	}
	troubles := map[asset.Sum]string{} // "": none
	for i := range all {
		at := &all[i].Metadata
		for _, b := range all[i].Spec.(*model.AssetSpec).Builds {
			sum, err := model.ParseAssetSum(b.SHA512)
			if err != nil {
				continue // validation refuses it
			}
			trouble, known := troubles[sum]
			if !known {
				if trouble = a.unavailableReason(sum, b.URL != "", ctx.Err() == nil); trouble == notRead {
					out.Unread++
					trouble = ""
				}
				troubles[sum] = trouble
			}
			if trouble != "" {
				out.Wrong = append(out.Wrong, doctor.UnavailableAsset{Asset: at.Namespace + "/" + at.Name, For: platformText(&b), Trouble: trouble,
					Mend: fmt.Sprintf("muster asset add %s FILE -n %s", at.Name, at.Namespace)})
			}
		}
	}
	out.Archives = len(troubles)
	return out, nil
}

// notRead is the trouble of an archive that examineArchives had no time to read.
const notRead = "not read"

// unavailableReason returns the reason why agents cannot download an archive of an Asset. The reason is empty if agents
// can get the archive, or a download is running. fetched means that an Asset has an address for the archive. read
// means to compare a stored archive with its sum.
func (a *Archive) unavailableReason(sum asset.Sum, fetched, read bool) string {
	if _, here := a.store.Size(sum); here {
		if !read {
			return notRead
		}
		if err := a.store.Check(sum); err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n") // without its hint
			return text
		}
		return ""
	}
	switch state := a.State(sum); {
	case state.Trouble != "" && fetched:
		return "the download failed: " + state.Trouble
	case state.Trouble != "":
		return state.Trouble
	case fetched:
		return ""
	}
	return "nobody has uploaded it"
}

// platformText formats the operating system and processor for which an archive was built, such as "linux amd64".
// For all platforms it returns "".
func platformText(b *model.AssetBuild) string {
	return strings.Join(strings.Fields(strings.Join([]string{b.OS, b.Arch, b.Distribution, b.DistributionVersion}, " ")), " ")
}
