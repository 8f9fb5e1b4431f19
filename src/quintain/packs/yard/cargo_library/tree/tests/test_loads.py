from cargo.loads import fill, share


def test_share():
    assert share(10, 3) == [4, 3, 3]
    assert share(9, 3) == [3, 3, 3]


def test_fill():
    assert fill([4, 4, 4], 8) == [[4, 4], [4]]
