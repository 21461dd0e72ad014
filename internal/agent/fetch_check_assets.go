package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/asset"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// assetWait is the longest time that a run waits for an asset on its way, so that the first result of
// a new check is not UNKNOWN.
const assetWait = 10 * time.Second

// archiveForMachine returns the SHA-512 of the archive for the local operating system and architecture. An asset has
// one archive for each.
func (c *checks) archiveForMachine(a *model.DefinitionAsset) (sum asset.Sum, ok bool) {
	if b := model.SelectBuild(a.Builds, c.agent.facts.lastMeasured()); b != nil {
		return b.SHA512, true
	}
	return "", false
}

// fetchAssets tells the asset cache which archives checks and policy directives need. The cache then downloads the
// missing archives. Checks run programs of archives; directives only copy their files.
func (c *checks) fetchAssets(definitions []*model.Definition) {
	sums := map[asset.Sum]bool{}
	for _, definition := range definitions {
		if definition.AsCheck() != nil && len(c.agent.cfg.Commands.Allow) > 0 {
			continue
		}
		assets := definition.Assets()
		for i := range assets {
			if sum, ok := c.archiveForMachine(&assets[i]); ok {
				sums[sum] = true
			}
		}
	}
	c.assets.SetNeeded(sums)
}

// assetFolder returns the folder with an asset's extracted archive, or an error if the archive is missing. It waits at
// most assetWait for the download.
func (c *checks) assetFolder(ctx context.Context, a *model.DefinitionAsset) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, assetWait)
	defer cancel()
	sum, ok := c.archiveForMachine(a)
	if !ok {
		return "", model.MissingBuildError(a.Name, "this machine", c.agent.facts.lastMeasured())
	}
	dir, err := c.assets.Dir(ctx, sum)
	if err != nil {
		return "", fmt.Errorf("asset %s is not available: %w", a.Name, err)
	}
	return dir, nil
}

// assetDirs returns the folders of a check's assets, or the reason why the check cannot run.
func (c *checks) assetDirs(ctx context.Context, x *check) (list []run.Asset, problem string) {
	if len(x.definition.Assets) == 0 {
		return nil, ""
	}
	needed := func(a model.DefinitionAsset) bool { return !a.HooksOnly }
	if len(c.agent.cfg.Commands.Allow) > 0 && slices.ContainsFunc(x.definition.Assets, needed) {
		return nil, "refused: the agent runs only the programs of its setting --allow-commands, and assets contain programs from the server"
	}
	ctx, cancel := context.WithTimeout(ctx, min(assetWait, cmp.Or(x.definition.Timeout, assetWait)))
	defer cancel()
	for i := range x.definition.Assets {
		a := &x.definition.Assets[i]
		sum, ok := c.archiveForMachine(a)
		if a.HooksOnly && (!ok || len(c.agent.cfg.Commands.Allow) > 0) {
			continue
		}
		if !ok {
			return nil, model.MissingBuildError(a.Name, "this machine", c.agent.facts.lastMeasured()).Error()
		}
		dir, err := c.assets.Dir(ctx, sum)
		if err != nil && a.HooksOnly {
			continue
		}
		if err != nil {
			return nil, fmt.Sprintf("asset %s is not available: %s", a.Name, err)
		}
		list = append(list, run.Asset{Name: a.Name, Dir: dir})
	}
	return list, ""
}

// lookUpArchive looks up an asset's archive, and repeats the look-up if another archive has arrived meanwhile.
// miss records a failure, so that the arrival of an archive afterwards starts another run.
func (c *checks) lookUpArchive(find func() bool, miss func()) {
	for arrived := c.arrivals.Load(); !find(); {
		miss()
		before := arrived
		if arrived = c.arrivals.Load(); arrived == before {
			return
		}
	}
}

// retryWithAsset reruns the checks and policy directives that lacked an asset's archive.
func (c *checks) retryWithAsset(asset.Sum) {
	c.arrivals.Add(1)
	c.agent.directives.retryWithAsset()
	var keys []schedule.Key
	c.mu.Lock()
	for key, x := range c.byKey {
		if x.state.missingAsset.Load() && !x.definition.RoundRobin {
			keys = append(keys, key)
		}
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.scheduler.RunAgain(key)
	}
}

// fetchAsset requests the archive of an asset from the servers, from a byte offset on. It asks one server after the
// other, in the order of sessions.
func (a *Agent) fetchAsset(ctx context.Context, sum asset.Sum, from int64) (*asset.Source, error) {
	err := errors.New("no server is configured")
	for _, server := range *a.credentials.servers.Load() {
		var source *asset.Source
		if source, err = a.fetchAssetFrom(ctx, server, sum, from); err == nil {
			return source, nil
		}
	}
	return nil, err
}

// fetchAssetFrom requests the archive of an asset from one server.
func (a *Agent) fetchAssetFrom(ctx context.Context, server string, sum asset.Sum, from int64) (*asset.Source, error) {
	config := link.TLSFor(wire.AssetProtocol, a.credentials.id.Load(), a.cfg.Machine.Now)
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return link.DialTLS(ctx, a.cfg.Dial, config, server)
		},
		DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: 30 * time.Second,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server+wire.AssetPath+sum, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("request the archive of an asset from server %s: %w", server, errors.Unwrap(err))
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return &asset.Source{Body: answer.Body}, nil
	case http.StatusPartialContent:
		return &asset.Source{Body: answer.Body, From: from}, nil
	case http.StatusRequestedRangeNotSatisfiable: // the file here is complete, or longer
		answer.Body.Close()
		return &asset.Source{Body: io.NopCloser(strings.NewReader("")), From: from}, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return nil, errors.New(cmp.Or(strings.TrimSpace(strings.ToValidUTF8(string(text), "")), answer.Status))
}
