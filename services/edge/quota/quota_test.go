package quota_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// H1: an account has its share and no more, and no other account is harmed.
func TestH1AShareIsOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota.New("calls", 3, 1000)
		keep := func(account, key string, size int) error {
			_, err := q.Keep(account, key, size, time.Minute)
			return err
		}
		for i := range 3 {
			if err := keep("a", fmt.Sprint(i), 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		err := keep("a", "4", 1)
		if f := fault.From(err); f.Reason != fault.RateLimited || f.Executed != fault.No || f.RetryAfter != 57*time.Second {
			t.Errorf("a fourth: %v, again in %v", err, f.RetryAfter)
		}
		if err := keep("b", "4", 1000); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		if err := keep("b", "5", 1); !fault.Is(err, fault.RateLimited) {
			t.Errorf("too many bytes: %v", err)
		}
		if err := keep("b", "4", 400); err != nil {
			t.Errorf("what is counted becomes smaller: %v", err)
		}
		if err := keep("b", "5", 600); err != nil {
			t.Error(err)
		}
		q.Release("a", "1")
		if err := keep("a", "4", 1); err != nil {
			t.Errorf("after one was released: %v", err)
		}
		time.Sleep(58 * time.Second)
		gone, err := q.Keep("a", "5", 1, time.Minute)
		if err != nil || !slices.Equal(gone, []string{"0"}) {
			t.Errorf("a minute later: %v, %v", gone, err)
		}
	})
}

// H1: for some stores it is better that the oldest of the same account make room.
func TestH1TheOldestOfTheSameAccountMakeRoom(t *testing.T) {
	t.Parallel()
	q := quota.New("sessions", 2, 100)
	displace := func(account, key string, size int, want ...string) {
		t.Helper()
		if gone := q.Displace(account, key, size, time.Hour); !slices.Equal(gone, want) {
			t.Errorf("%s of %s: %v are gone, want %v", key, account, gone, want)
		}
	}
	displace("a", "1", 10)
	displace("b", "x", 90)
	displace("a", "2", 10)
	displace("a", "1", 20) // used, so it is the youngest
	displace("a", "3", 10, "2")
	displace("a", "4", 95, "1", "3")
	displace("b", "y", 10)
}

// H1: the accounts of one tenant share one share, however many they are, and no other is
// harmed.
func TestH1AShareOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota.New("calls", 3, 1000)
		keep := func(account, key string, size int) error {
			_, err := q.Keep(account, key, size, time.Minute)
			return err
		}
		for i := range 6 {
			for k := range 2 {
				if err := keep(fmt.Sprintf("4:acme%d", i), fmt.Sprint(i, k), 10); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := keep("4:acmenew", "x", 10); !fault.Is(err, fault.RateLimited) || fault.From(err).Executed != fault.No {
			t.Errorf("a thirteenth of a tenant: %v", err)
		}
		if err := keep("4:acme1", "1 1", 20); err != nil {
			t.Errorf("what is counted may change: %v", err)
		}
		for _, other := range []string{"4:beta1", "0:ada", "@192.0.2.1", "@192.0.2.2"} {
			if err := keep(other, "x", 10); err != nil {
				t.Errorf("%s, who is not of the tenant: %v", other, err)
			}
		}
		q.Release("4:acme1", "1 1")
		if err := keep("4:acmenew", "x", 10); err != nil {
			t.Errorf("after one was released: %v", err)
		}
		if err := keep("4:acmenew", "y", 10); !fault.Is(err, fault.RateLimited) {
			t.Errorf("and one more: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := keep("4:acmenew", "y", 10); err != nil {
			t.Errorf("when those of all others are over: %v", err)
		}
	})
	t.Run("by bytes", func(t *testing.T) {
		q := quota.New("calls", 100, 1000)
		for i := range 4 {
			if _, err := q.Keep(fmt.Sprintf("4:acme%d", i), "k", 1000, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := q.Keep("4:acmenew", "k", 1, time.Minute); !fault.Is(err, fault.RateLimited) {
			t.Error(err)
		}
		if q.Below("4:acmenew", 0.75) {
			t.Error("there is said to be room")
		}
	})
	t.Run("the oldest of who keeps most make room", func(t *testing.T) {
		q := quota.New("sessions", 3, 1000)
		q.Displace("4:acmelight", "light", 10, time.Minute)
		for i := range 11 {
			if gone := q.Displace(fmt.Sprintf("4:acme%d", i/3), fmt.Sprint(i), 20, time.Minute); len(gone) > 0 {
				t.Fatalf("%d: %v are gone", i, gone)
			}
		}
		if gone := q.Displace("4:acmenew", "new", 10, time.Minute); !slices.Equal(gone, []string{"0"}) {
			t.Errorf("%v are gone", gone)
		}
		if gone := q.Displace("4:acmenew", "large", 990, time.Minute); len(gone) != 1 {
			t.Errorf("%v are gone", gone)
		}
	})
}

// Accounts that are forgotten no longer count for their tenant.
func TestForgottenAccountsOfATenant(t *testing.T) {
	t.Parallel()
	q := quota.New("sessions", 2_500, 1<<20)
	for i := range 10_000 {
		if _, err := q.Keep(fmt.Sprintf("4:acme%d", i), "k", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Keep("4:acme1", "l", 1, time.Hour); !fault.Is(err, fault.RateLimited) {
		t.Error(err)
	}
	for i := range 10_000 {
		if _, err := q.Keep(fmt.Sprintf("@%d", i), "k", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Keep("4:acme1", "l", 1, time.Hour); err != nil {
		t.Error(err)
	}
}

// An edge counts a bounded number of accounts, however many there are.
func TestAccountsAreBounded(t *testing.T) {
	t.Parallel()
	q := quota.New("sessions", 1, 100)
	for i := range 20_000 {
		if _, err := q.Keep(fmt.Sprint(i), "k", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Keep("19999", "l", 1, time.Hour); !fault.Is(err, fault.RateLimited) {
		t.Errorf("who wrote last is forgotten: %v", err)
	}
	if _, err := q.Keep("0", "l", 1, time.Hour); err != nil {
		t.Errorf("who wrote first is not: %v", err)
	}
}

func TestRecount(t *testing.T) {
	t.Parallel()
	q := quota.New("things", 3, 100)
	for _, key := range []string{"a", "b"} {
		if _, err := q.Keep("one", key, 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if keys := q.Recount("one", time.Hour); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("%v", keys)
	}
	if keys := q.Recount("one", time.Hour); keys != nil {
		t.Errorf("again within the hour: %v", keys)
	}
	if keys := q.Recount("nobody", 0); keys != nil {
		t.Errorf("of nobody: %v", keys)
	}
}
