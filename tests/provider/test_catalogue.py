from instar.provider.catalogue import LIBRARY_CLASSES, shipped


def test_the_catalogue_is_dated_and_names_its_source():
    assert shipped().dated
    assert "override" in shipped().source


def test_every_providers_own_choices_are_among_its_models():
    for name, vendor in shipped().providers.items():
        for chosen in (vendor.default, vendor.small):
            assert chosen is None or chosen in vendor.models, name
        assert vendor.url.startswith("https://") or vendor.local or vendor.protocol in LIBRARY_CLASSES, name
        assert vendor.env or vendor.local or vendor.protocol == "google-vertex", name


def test_figures_are_plausible():
    entries = [entry for vendor in shipped().providers.values() for entry in vendor.models.values()]
    assert len(entries) >= 60
    for entry in entries:
        assert entry.context == 0 or entry.context >= 8192
        assert entry.output <= entry.context or entry.context == 0
        assert all(price is None or 0 <= price < 200 for price in entry.cost)
        inputs, _, cache_read, _ = [*entry.cost, None, None, None, None][:4]
        if cache_read is not None and inputs:
            assert cache_read < inputs
