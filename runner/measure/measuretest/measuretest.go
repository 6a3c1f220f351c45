// Package measuretest gives tests a real VictoriaMetrics. The program is built once into the user's cache.
package measuretest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"h100-inference-control-plane/runner/measure"
)

// CacheDir is where the built VictoriaMetrics lies, the same as benchctl's.
func CacheDir(t testing.TB) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache folder for VictoriaMetrics: %v", err)
	}
	return filepath.Join(base, "h100-inference-control-plane")
}

// Open starts a VictoriaMetrics that ends with the test. The test's main must call child.MaybeWatchdog.
func Open(t testing.TB) *measure.Store {
	t.Helper()
	s, err := measure.Open(context.Background(), measure.OpenOptions{CacheDir: CacheDir(t), StateDir: t.TempDir(), Progress: func(m string) { t.Log(m) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}
