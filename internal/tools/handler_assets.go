// Package tools holds the Assets of the server's own commands: handlers, filters and mutators. It knows all Assets and the
// resources that name them (the planner calls Set and Remove as resources change), chooses the archive for the server's
// machine, and extracts it with the agents' cache.
//
// One lock guards the tables and is held for a moment; the only goroutine is the cache's (Extractor.Run). Start reading at handler_assets.go.
package tools

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/asset"
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

const (
	// assetWait is how long a command waits for an asset that is being extracted: the first message
	// after an apply is then not tried again.
	assetWait = 10 * time.Second
	// recheckPeriod is the period after which extracted files are checked again when they are used.
	recheckPeriod = time.Minute
	// reservedDisk is the part of the disk, in bytes, that extracted files leave free: the journal may lie there.
	reservedDisk = 512 << 20
)

// Options has an Extractor's target folder, the server machine's facts, and a function that opens asset
// archives.
type Options struct {
	Dir   string            // folder of extracted files; created if it does not exist
	Facts map[string]string // of the server's machine
	// Archive opens an archive of the server's store after a check of its sum; the error names the reason why
	// the store does not have it.
	Archive func(sum [64]byte) (io.ReadSeekCloser, error)
	// Ready is called when an asset becomes usable. It must not block, nor call the Box. May be nil.
	Ready func()
	Log   *slog.Logger
}

// Extractor extracts Assets (archives of programs) on the server, for its handlers, filters and mutators. It
// returns the folders of the extracted files. It is safe for concurrent use.
type Extractor struct {
	opts  Options
	cache *asset.Cache

	mu     sync.Mutex
	assets map[route.Name]*model.AssetSpec
	users  map[assetUser][]string // Assets that filters and mutators name, by resource
	named  []string               // Assets that handlers name
}

// assetUser is the kind and name of a Filter or Mutator that uses Assets. It has the kind and the name.
type assetUser struct {
	kind string
	name route.Name
}

// Open returns an Extractor that extracts Assets into the folder o.Dir.
func Open(o Options) (*Extractor, error) {
	if o.Ready == nil {
		o.Ready = func() {}
	}
	b := &Extractor{opts: o, assets: map[route.Name]*model.AssetSpec{}, users: map[assetUser][]string{}}
	var err error
	b.cache, err = asset.Open(asset.Config{
		Dir: o.Dir, Fetch: b.fetchFromStore, NoDelay: true, Reserve: reservedDisk, Look: recheckPeriod, Whose: "the server's handlers", Log: o.Log,
		Ready: func(asset.Sum) { o.Ready() },
	})
	return b, err
}

// Run extracts the Assets that handlers, filters and mutators use, until ctx ends.
func (b *Extractor) Run(ctx context.Context) error {
	b.cache.Run(ctx)
	return nil
}

// ArchiveArrived retries, after an upload, to extract assets whose archives were missing. It is called after an
// upload.
func (b *Extractor) ArchiveArrived() { b.cache.RetryNow() }

// Apply updates the Extractor's Assets, and its list of Assets per Filter and Mutator, from changed resources.
// It ignores other kinds.
func (b *Extractor) Apply(list []route.Declaration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range list {
		switch spec := d.Spec.(type) {
		case *model.AssetSpec:
			b.assets[d.Name] = spec
			b.requestUsedArchives()
			b.opts.Ready() // an Asset that the message names may have arrived
		case *model.FilterSpec:
			b.recordUsedAssets(assetUser{"Filter", d.Name}, spec.Assets)
		case *model.MutatorSpec:
			b.recordUsedAssets(assetUser{"Mutator", d.Name}, spec.Assets)
		case nil:
			if d.Kind == "Asset" {
				delete(b.assets, d.Name)
			}
			b.recordUsedAssets(assetUser{d.Kind, d.Name}, nil)
		}
	}
}

// recordUsedAssets replaces the list of Assets that one Filter or Mutator uses. The caller holds the lock.
func (b *Extractor) recordUsedAssets(who assetUser, assets []string) {
	before := len(b.users[who])
	delete(b.users, who)
	for _, ref := range assets {
		b.users[who] = append(b.users[who], model.QualifyRef(who.name.Namespace, ref))
	}
	if before+len(assets) > 0 {
		b.requestUsedArchives()
	}
}

// SetHandlerAssets sets which Assets the handlers use, to extract the Assets' archives. The box extracts them, and
// evicts all others when it needs room.
func (b *Extractor) SetHandlerAssets(handlers []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.named = handlers
	b.requestUsedArchives()
}

// requestUsedArchives asks for the extraction of all archives that handlers, filters and mutators use. Handlers,
// filters and mutators use these archives. The caller holds the lock.
func (b *Extractor) requestUsedArchives() {
	sums := map[asset.Sum]bool{}
	for _, list := range append(slices.Collect(maps.Values(b.users)), b.named) {
		for _, ref := range list {
			if sum, err := b.archiveSumLocked(ref); err == nil {
				sums[sum] = true
			}
		}
	}
	b.cache.SetNeeded(sums)
}

// archiveSum returns the SHA-512 of an asset's archive that suits the server's machine.
func (b *Extractor) archiveSum(ref string) (asset.Sum, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.archiveSumLocked(ref)
}

// archiveSumLocked is archiveSum for callers that already hold the lock. It does not take the lock. The caller holds
// the lock.
func (b *Extractor) archiveSumLocked(ref string) (asset.Sum, error) {
	ns, name := model.SplitRef("", ref)
	spec := b.assets[route.Name{Namespace: ns, Name: name}]
	if spec == nil {
		return "", model.Errorf(model.NotFound, "asset %s does not exist; declare it with muster apply -f", ref)
	}
	build := model.SelectBuild(spec.Builds, b.opts.Facts)
	if build == nil {
		return "", model.MissingBuildError(ref, "the server's machine", b.opts.Facts)
	}
	return build.SHA512, nil
}

// UseAssets returns the folders of a command's extracted assets, and keeps the files until the command ends.
// Their files stay unchanged until done is called, even if an asset gets another archive. The error names the
// missing asset and the reason.
func (b *Extractor) UseAssets(ctx context.Context, refs []string) (list []model.AssetDir, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, assetWait)
	defer cancel()
	var ends []func()
	done = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, ref := range refs {
		sum, err := b.archiveSum(ref)
		if err != nil {
			done()
			return nil, nil, err
		}
		dir, end, err := b.cache.Acquire(ctx, sum)
		if err != nil {
			done()
			return nil, nil, model.Errorf(model.Unavailable, "this server has no archive of asset %s: %w", ref, err)
		}
		ends = append(ends, end)
		list = append(list, model.AssetDir{Name: ref, Dir: dir})
	}
	return list, done, nil
}

// fetchFromStore opens an archive in the server's store for extraction.
func (b *Extractor) fetchFromStore(_ context.Context, text asset.Sum, from int64) (*asset.Source, error) {
	sum, err := model.ParseAssetSum(text)
	if err != nil {
		return nil, err
	}
	f, err := b.opts.Archive(sum)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "\n  ", ": "))
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return &asset.Source{Body: f, From: from}, nil
}

// maxScripts bounds the files that one asset may have as JavaScript.
const maxScripts = 64

// Scripts returns the JavaScript files (lib/*.js) of Assets, named NAMESPACE/NAME. key identifies their content: if
// it equals known, the list is nil. It does not wait for an Asset that is not extracted yet, but returns an error.
func (b *Extractor) Scripts(refs []string, known string) (list []filter.Library, key string, err error) {
	var sums []string
	for _, ref := range refs {
		sum, err := b.archiveSum(ref)
		if err != nil {
			return nil, "", err
		}
		sums = append(sums, sum)
	}
	if key = strings.Join(sums, " "); key == known {
		return nil, key, nil
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for i, ref := range refs {
		dir, done, err := b.cache.Acquire(now, sums[i])
		if err != nil {
			return nil, "", model.Errorf(model.Unavailable, "this server has no archive of asset %s: %w", ref, err)
		}
		scripts, err := readScripts(ref, dir)
		done()
		if err != nil {
			if class := model.ClassOf(err); class != model.TooLarge {
				err = model.Errorf(model.Unavailable, "cannot read the files of asset %s: %w", ref, err)
			}
			return nil, "", err
		}
		list = append(list, scripts...)
	}
	return list, key, nil
}

// readScripts reads the JavaScript files of one extracted Asset, in the order of their names. An Asset without
// JavaScript has commands only.
func readScripts(ref, dir string) (list []filter.Library, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), "lib/*.js")
	if err != nil {
		return nil, err
	}
	if len(names) > maxScripts {
		return nil, model.Errorf(model.TooLarge, "asset %s has more than %d files lib/*.js", ref, maxScripts)
	}
	for _, name := range names {
		text, err := readScript(root, name)
		if err != nil {
			return nil, err
		}
		if len(text) > filter.MaxLibraries {
			return nil, model.Errorf(model.TooLarge, "asset %s: the file %s is larger than %d bytes", ref, name, filter.MaxLibraries)
		}
		list = append(list, filter.Library{Name: ref + ":" + name, Source: text})
	}
	return list, nil
}

// readScript reads one JavaScript file, up to a maximum size.
func readScript(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, filter.MaxLibraries+1))
	return string(text), err
}
