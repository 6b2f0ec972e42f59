"""scikit-learn, in two settings of one parameter, for `durm compare --command`:

durm compare --command "python scikit_learn.py {seed} {features}" \
    --arm "sqrt: features=sqrt" --arm "half: features=0.5" --seeds 10 --metric accuracy
"""

import sys

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

seed, features = int(sys.argv[1]), sys.argv[2]
x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=0, stratify=y)
forest = RandomForestClassifier(
    n_estimators=50, max_features=features if features == "sqrt" else float(features), random_state=seed
)
print(100 * forest.fit(x_train, y_train).score(x_test, y_test))
