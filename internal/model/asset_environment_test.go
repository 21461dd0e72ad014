package model

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The folders of assets come first in the lists, and what is set by hand stands in the place of what is inherited.
func TestAssetEnvironment(t *testing.T) {
	inherited := []string{"PATH=/bin", "HOME=/root", "CPATH=/usr/include"}
	own := map[string]string{"LD_LIBRARY_PATH": "/opt/lib", "A": "b", "PATH": "/opt/bin"}
	assets := []AssetDir{{"shared/check-plugins", "/c/1"}, {"ruby.3", "/c/2"}}
	for what, c := range map[string]struct {
		own    map[string]string
		assets []AssetDir
		want   string
	}{
		"nothing": {nil, nil, "HOME=/root CPATH=/usr/include PATH=/bin"},
		"own":     {own, nil, "HOME=/root A=b CPATH=/usr/include LD_LIBRARY_PATH=/opt/lib PATH=/opt/bin"},
		"assets":  {nil, assets, "HOME=/root CHECK_PLUGINS_PATH=/c/1 RUBY_3_PATH=/c/2 CPATH=/c/1/include:/c/2/include:/usr/include LD_LIBRARY_PATH=/c/1/lib:/c/2/lib PATH=/c/1/bin:/c/2/bin:/bin"},
		"both":    {own, assets[:1], "HOME=/root CHECK_PLUGINS_PATH=/c/1 A=b CPATH=/c/1/include:/usr/include LD_LIBRARY_PATH=/c/1/lib:/opt/lib PATH=/c/1/bin:/opt/bin"},
	} {
		if got := strings.Join(AssetEnvironment(inherited, c.own, c.assets), " "); got != strings.ReplaceAll(c.want, ":", string(os.PathListSeparator)) {
			t.Errorf("%s: %s", what, got)
		}
	}
	if !slices.Equal(inherited, []string{"PATH=/bin", "HOME=/root", "CPATH=/usr/include"}) {
		t.Errorf("what is inherited was changed: %v", inherited)
	}
}
